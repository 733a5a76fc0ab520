package everline_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// largestCircle is how many files of one package may need each other in a
// circle. Who opens one file of a circle has to read all of them.
const largestCircle = 12

type listedPackage struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
}

func TestCirclesOfFiles(t *testing.T) {
	list := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,DepOnly", "./...")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	var ours []listedPackage
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listedPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if !p.DepOnly && len(p.GoFiles) > 1 {
			ours = append(ours, p)
		}
	}
	if len(ours) < 10 {
		t.Fatalf("only %d packages have been found", len(ours))
	}
	for _, p := range ours {
		if circle := largest(usesOfFiles(t, p, exports)); len(circle) > largestCircle {
			t.Errorf("%s: %d of %d files need each other in a circle, %d may:\n%s",
				p.ImportPath, len(circle), len(p.GoFiles), largestCircle, strings.Join(circle, " "))
		}
	}
}

func TestLargestCircle(t *testing.T) {
	uses := map[string]map[string]bool{
		"a": {"b": true}, "b": {"c": true}, "c": {"a": true, "d": true}, "d": {"e": true}, "e": {},
	}
	if got := largest(uses); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("the circle is %v", got)
	}
	delete(uses["c"], "a")
	if got := largest(uses); len(got) != 1 {
		t.Errorf("without the way back the circle is %v", got)
	}
}

// usesOfFiles says for each file of a package which others declare what it
// uses: methods and fields count as well as functions and types.
func usesOfFiles(t *testing.T, p listedPackage, exports map[string]string) map[string]map[string]bool {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	uses := map[string]map[string]bool{}
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
		uses[name] = map[string]bool{}
	}
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	checker := types.Config{Importer: importer.ForCompiler(fset, "gc", lookup)}
	pkg, err := checker.Check(p.ImportPath, fset, files, info)
	if err != nil {
		t.Fatal(err)
	}
	fileOf := func(pos token.Pos) string { return filepath.Base(fset.Position(pos).Filename) }
	for ident, object := range info.Uses {
		local := object.Parent() != nil && object.Parent() != pkg.Scope()
		if object.Pkg() == pkg && !local {
			uses[fileOf(ident.Pos())][fileOf(object.Pos())] = true
		}
	}
	return uses
}

// largest is the largest set of files of which each leads to each.
func largest(uses map[string]map[string]bool) []string {
	leads := map[string]map[string]bool{}
	for from := range uses {
		leads[from] = map[string]bool{from: true}
		for todo := []string{from}; len(todo) > 0; {
			next := todo[0]
			todo = todo[1:]
			for to := range uses[next] {
				if !leads[from][to] {
					leads[from][to] = true
					todo = append(todo, to)
				}
			}
		}
	}
	var found []string
	for from := range uses {
		var circle []string
		for to := range leads[from] {
			if leads[to][from] {
				circle = append(circle, to)
			}
		}
		if len(circle) > len(found) {
			found = circle
		}
	}
	slices.Sort(found)
	return found
}
