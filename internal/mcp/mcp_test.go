package mcp

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"
	"unsafe"

	"github.com/everline/everline/internal/wire"
)

// wire may not import this package, and keeps the methods of all revisions
// beside it, so that Parse allocates none of them.
func TestMethodsAreInterned(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "mcp.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	ast.Inspect(file, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		method, err := strconv.Unquote(lit.Value)
		if err != nil || method == EverlineResult {
			return true
		}
		seen++
		frame := wire.AppendNotification(nil, method, nil)
		first, err := wire.Parse(frame)
		second, err2 := wire.Parse(frame)
		if err != nil || err2 != nil || first.Method != method || unsafe.StringData(first.Method) != unsafe.StringData(second.Method) {
			t.Errorf("wire allocates %q anew: %v, %v", method, err, err2)
		}
		return true
	})
	if seen < 35 {
		t.Errorf("only %d methods were found", seen)
	}
}

func TestNewest(t *testing.T) {
	if v := Newest(LegacyVersions, []string{"2024-11-05", "2025-06-18", "1999-01-01"}); v != "2025-06-18" {
		t.Error(v)
	}
	if v := Newest(ModernVersions, LegacyVersions); v != "" {
		t.Error(v)
	}
}

func TestLevelRank(t *testing.T) {
	for raw, want := range map[string]int{`"debug"`: 1, `"emergency"`: 8, `"loud"`: 0, `""`: 0, `7`: 0} {
		if got := LevelRank([]byte(raw)); got != want {
			t.Errorf("%s: %d", raw, got)
		}
	}
}

// The code alone may be anybody's.
func TestLoop(t *testing.T) {
	for raw, want := range map[string]bool{
		`{"code":-31012,"message":"","data":` + LoopData + `}`: true,
		`{"code":-31012,"message":"","data":{"kind":"knot"}}`:  false,
		`{"code":-31012,"message":""}`:                         false,
		`{"code":-32000,"message":"","data":` + LoopData + `}`: false,
	} {
		if IsLoop([]byte(raw)) != want {
			t.Errorf("%s: not %v", raw, want)
		}
	}
	params := append(append([]byte(`{"_meta":`), HandshakeMeta()...), '}')
	if !FromInstance(params, Instance()) || FromInstance(params, "another") || FromInstance([]byte(`{"_meta":{"everline/instance":""}}`), "") {
		t.Errorf("%s", params)
	}
}
