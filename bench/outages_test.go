package main

import (
	"strings"
	"testing"
	"time"
)

// TestOutageVerdicts: what is promised is what a run is judged by.
func TestOutageVerdicts(t *testing.T) {
	could := time.Now()
	for name, c := range map[string]struct {
		a   *away
		bad string
	}{
		"a process in time":        {&away{kind: stdio, last: 40 * time.Second, back: could.Add(29 * time.Second)}, ""},
		"a process too late":       {&away{kind: stdio, last: 40 * time.Second, back: could.Add(31 * time.Second)}, "30s is the bound"},
		"a URL in time":            {&away{kind: overHTTP, last: 40 * time.Second, back: could.Add(9 * time.Second)}, ""},
		"a URL too late":           {&away{kind: overHTTP, last: 400 * time.Second, back: could.Add(11 * time.Second)}, "10s is the bound"},
		"a port too late":          {&away{kind: overHTTP, last: 5 * time.Second, back: could.Add(2 * time.Second)}, "500ms is the bound"},
		"back before it was seen":  {&away{kind: overHTTP, last: 5 * time.Second, back: could.Add(-time.Millisecond)}, ""},
		"not back":                 {&away{kind: stdio, last: 5 * time.Second}, "did not come back"},
		"a call failed":            {&away{kind: stdio, last: 15 * time.Second, back: could, called: true, tally: tally{calls: 9, failed: 1, why: "away"}}, "1 of 9 calls failed"},
		"calls that waited enough": {&away{kind: stdio, last: 40 * time.Second, back: could, called: true, tally: tally{calls: 9, failed: 1}}, ""},
	} {
		c.a.could = could
		err := c.a.verdict()
		if (err == nil) != (c.bad == "") || err != nil && !strings.Contains(err.Error(), c.bad) {
			t.Errorf("%s: %v, want %q", name, err, c.bad)
		}
	}
}

// TestOutageCases: there are twenty, each server once, and all are on the page.
func TestOutageCases(t *testing.T) {
	cases, names := outageCases(), map[string]bool{}
	for _, a := range cases {
		names[a.name()], names[a.server] = true, true
	}
	if len(cases) != 20 || len(names) != 40 {
		t.Errorf("%d cases, %d names", len(cases), len(names))
	}
	cases[1].tally.calls, cases[1].tally.failed = 77, 3
	page := string(outagePage(cases, nil))
	if strings.Count(page, "\n| process |") != 10 || strings.Count(page, "\n| URL |") != 10 || !strings.Contains(page, "| 20/s | 0 ms | 30 s | 77 | 3 |") {
		t.Error(page)
	}
}
