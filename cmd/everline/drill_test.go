package main

import (
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/drill"
	"github.com/everline/everline/internal/mcptest"
)

// scriptT lets a script own what is made for a test.
type scriptT struct{ *testscript.TestScript }

func (scriptT) Helper()            {}
func (t scriptT) Cleanup(f func()) { t.Defer(f) }

// web VAR serves a scripted server over Streamable HTTP until the script ends,
// and sets VAR to its URL.
func web(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: web VAR")
	}
	site := mcptest.Web(scriptT{ts}, mcptest.New(mcptest.Config{}))
	ts.Setenv(args[0], site.URL+"/mcp")
}

// TestDrillText is the report for people, of a drill that went badly.
func TestDrillText(t *testing.T) {
	t.Parallel()
	r := drill.Report{
		DrillReport: admin.DrillReport{
			Server: "github", Fault: "kill", GenerationBefore: 4, GenerationAfter: 9, Woken: true, CatalogShort: true,
			Clients: admin.DrillCalls{Calls: 12, Answered: 8, Failed: map[string]int{"unavailable": 1, "exited": 2}, GaveUp: 1, Waited: 3, Resent: 2, MedianMS: 1.25, LongestMS: 10_250},
		},
		Lists: drill.Lists{Via: "admin", Count: 40, Failed: 1, Short: 2, Tools: 1},
	}
	want := []string{
		"kill of github: something went wrong",
		"  calls      none",
		"  clients    12, 8 answered, 3 failed (exited 2, unavailable 1), 1 given up by their clients; waited 3, sent again 2; median 1.2 ms, longest 10 s",
		"  lists      40 by the admin API, 1 failed, 2 short of 1 tool",
		"  catalog    something that github offers was not listed all the time",
		"  recovery   none yet, and only once it was told to connect; everline status github",
		"  generation 4 before, 9 after",
		"",
	}
	if got := drillText(r); got != strings.Join(want, "\n") {
		t.Errorf("got\n%swant\n%s", got, strings.Join(want, "\n"))
	}
	r.Recovered, r.Woken, r.RecoveryMS = true, false, 132
	if got := drillText(r); !strings.Contains(got, "\n  recovery   132 ms after the fault\n") {
		t.Errorf("got\n%s", got)
	}
}
