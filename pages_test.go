package everline_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestFaultsPage compares the page of faults with the tests that are named
// after them: each row has a test, and each such test a row.
func TestFaultsPage(t *testing.T) {
	page, err := os.ReadFile("docs/reference/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\| ([A-Z]\d+) \|`).FindAllStringSubmatch(string(page), -1) {
		if rows[m[1]] {
			t.Errorf("%s stands on the page twice", m[1])
		}
		rows[m[1]] = true
	}
	tests := faultTests(t)
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		if !tests[id] {
			t.Errorf("no test is named after %s", id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(tests)) {
		if !rows[id] {
			t.Errorf("%s has a test and no row in docs/reference/faults.md", id)
		}
	}
}

// faultTests are the ids that tests are named after, in Go and in scripts:
// TestFaultA1SessionLost, TestFaultG10AndG11.
func faultTests(t *testing.T) map[string]bool {
	t.Helper()
	name := regexp.MustCompile(`(?m)^func TestFault(\w+)`)
	id := regexp.MustCompile(`^(?:And)?([A-Z]\d\d?)(\D|$)`)
	ids := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && path != "."):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range name.FindAllStringSubmatch(string(text), -1) {
			for rest := m[1]; ; {
				one := id.FindStringSubmatch(rest)
				if one == nil {
					break
				}
				ids[one[1]] = true
				rest = rest[len(one[0])-len(one[2]):]
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// TestIndexPages wants every page of the documentation in the index of its kind.
func TestIndexPages(t *testing.T) {
	for _, kind := range []string{"how-to", "reference", "explanation"} {
		index, err := os.ReadFile(filepath.Join("docs", kind, "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		pages, err := filepath.Glob(filepath.Join("docs", kind, "*.md"))
		if err != nil || len(pages) < 4 {
			t.Fatalf("pages of %s: %q, %v", kind, pages, err)
		}
		for _, page := range pages {
			if name := filepath.Base(page); name != "README.md" && !strings.Contains(string(index), "("+name+")") {
				t.Errorf("docs/%s/README.md does not name %s", kind, name)
			}
		}
	}
}

// TestACallPage compares the walk of a call with the code: each function that
// the page links to is in the file that the link names, each step of the way
// down names the next one, and the way is no longer than it has to be.
func TestACallPage(t *testing.T) {
	const maxSteps, maxPackages = 16, 7
	page, err := os.ReadFile("docs/explanation/a-call.md")
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile("\\[`([\\w.]+)`\\]\\(\\.\\./\\.\\./([\\w./]+\\.go)\\)")
	for _, m := range link.FindAllStringSubmatch(string(page), -1) {
		if declared(t, m[2], m[1]) == nil {
			t.Errorf("%s has no %s", m[2], m[1])
		}
	}
	steps := regexp.MustCompile(`(?m)^\| \d+ \| `+link.String()).FindAllStringSubmatch(string(page), -1)
	packages := map[string]bool{}
	for i, m := range steps {
		packages[filepath.Dir(m[2])] = true
		if i+1 == len(steps) {
			break
		}
		_, next, _ := strings.Cut(steps[i+1][1], ".")
		if from := declared(t, m[2], m[1]); from != nil && !names(from, next) {
			t.Errorf("%s does not name %s", m[1], steps[i+1][1])
		}
	}
	if len(steps) < 10 || len(steps) > maxSteps || len(packages) > maxPackages {
		t.Errorf("the walk has %d steps through %d packages, want at most %d and %d", len(steps), len(packages), maxSteps, maxPackages)
	}
}

// declared finds the method Type.Name in a file; nil if it is not there.
func declared(t *testing.T, file, method string) *ast.FuncDecl {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return nil
	}
	receiver, name, _ := strings.Cut(method, ".")
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Name.Name != name || fn.Recv == nil {
			continue
		}
		recv := fn.Recv.List[0].Type
		if star, ok := recv.(*ast.StarExpr); ok {
			recv = star.X
		}
		if id, ok := recv.(*ast.Ident); ok && id.Name == receiver {
			return fn
		}
	}
	return nil
}

// names tells whether a function names another one.
func names(fn *ast.FuncDecl, name string) bool {
	found := false
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == name
		return !found
	})
	return found
}
