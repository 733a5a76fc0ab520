package upstream

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/internal/mcptest"
)

// W4: silence is no verdict. What becomes of a probe that a pipe's server did
// not answer in time, and whether the era may be kept.
func TestFaultW4(t *testing.T) {
	for name, c := range map[string]struct {
		era      mcptest.Era
		probe    mcptest.Reply
		modern   bool // the generation is
		late     bool // the server is found to be modern afterwards
		answered bool // the era may be kept
	}{
		"modern, in time":                       {mcptest.Dual, mcptest.Reply{Run: true, Delay: time.Second}, true, false, true},
		"modern, a second late":                 {mcptest.Dual, mcptest.Reply{Run: true, Delay: 3 * time.Second}, false, true, false},
		"another modern version, late":          {mcptest.Dual, mcptest.Reply{Delay: 3 * time.Second, Error: `{"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}}`}, false, true, false},
		"never":                                 {mcptest.Legacy, mcptest.Reply{Hang: true}, false, false, false},
		"later than anybody waits":              {mcptest.Dual, mcptest.Reply{Run: true, Delay: time.Minute}, false, false, false},
		"a legacy error, in time":               {mcptest.Legacy, mcptest.Reply{Error: `{"code":-32601,"message":"no"}`}, false, false, true},
		"a legacy error, late":                  {mcptest.Legacy, mcptest.Reply{Delay: 3 * time.Second, Error: `{"code":-32601,"message":"no"}`}, false, false, false},
		"yes to everything, late":               {mcptest.Legacy, mcptest.Reply{Delay: 3 * time.Second, Result: `{}`}, false, false, false},
		"a list of legacy versions alone, late": {mcptest.Legacy, mcptest.Reply{Delay: 3 * time.Second, Result: `{"supportedVersions":["2025-11-25"]}`}, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mcptest.New(mcptest.Config{Era: c.era})
				s.Next("server/discover", 1, c.probe)
				late := 0
				begun := time.Now()
				u, _ := inMemory(t, s, func(o *Options) { o.Modern = func() { late++ } })
				if d := time.Since(begun); d > silenceMeansLegacy {
					t.Errorf("the start took %s", d)
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if e := u.Info().Era; e.Modern != c.modern || e.Answered != c.answered || (late == 1) != c.late {
					t.Errorf("era %+v, told %d times", e, late)
				}
				if n := len(listAll(t, u, nil).Items[0]); n != 3 {
					t.Errorf("%d tools", n)
				}
			})
		})
	}
}
