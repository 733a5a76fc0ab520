package admin

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
)

// A server that flaps does not push out what happened to others.
func TestJournalIsNotOneServers(t *testing.T) {
	j := NewJournal()
	for i := range journalSize / 2 {
		j.Record(connected(fmt.Sprint("quiet", i%7), 1))
	}
	for range 5 * journalSize {
		j.Record(connected("flaps", 1))
	}
	events, _ := j.After(0)
	n := map[bool]int{}
	for i, e := range events {
		n[e.Server == "flaps"]++
		if i > 0 && e.Seq <= events[i-1].Seq {
			t.Fatal("not in the order of their numbers")
		}
	}
	if n[true] != journalSize/2 || n[false] != journalSize/2 {
		t.Errorf("%d of the one that flaps, %d of the others", n[true], n[false])
	}
	if k := j.Kinds()["connected"]; k != 5*journalSize+journalSize/2 {
		t.Errorf("%d were counted", k)
	}
}

// Who comes back reads on behind what was seen, and all of it after a restart.
func TestEventsCursor(t *testing.T) {
	j := NewJournal()
	for i := range 3 {
		j.Record(connected("up", uint64(i)))
	}
	h := New(Options{Hub: newFake(t), Journal: j}).Handler()
	for _, c := range []struct {
		query, header string
		lines         int
	}{
		{"", "", 3},
		{"?after=2", "", 1},
		{"?after=" + j.Run() + "-1", "", 2},
		{"?after=00000000-2", "", 3},
		{"", j.Run() + "-3", 0},
		{"", "ffffffff-3", 3},
		{"?after=x", "", -1},
	} {
		r := httptest.NewRequest(http.MethodGet, "/v1/events"+c.query, nil)
		r.Header.Set("Last-Event-ID", c.header)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if n := strings.Count(w.Body.String(), "\n"); w.Code == http.StatusOK && n != c.lines || (w.Code != http.StatusOK) != (c.lines < 0) {
			t.Errorf("%+v: %d, %s", c, w.Code, w.Body)
		}
	}
}

// The page has every member of the data of every kind.
func TestDataOfEventsIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/json.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "### Data of events")
	rest, _, _ = strings.Cut(rest, "\n## ")
	cause := &fault.Fault{Kind: fault.Exited, Exit: "exit 1", Err: errors.New("secret-value")}
	list := event.ListChange{Kind: "tools", Added: []string{"secret-value"}}
	for _, e := range []event.Event{
		event.Connecting{},
		event.Connected{},
		event.StartFailed{Cause: cause},
		event.Lost{Cause: cause, Next: time.Now()},
		event.Stopped{Cause: cause},
		event.Stopped{},
		event.Idled{},
		event.Disabled{},
		event.Ending{},
		event.Enabled{},
		event.Reconfigured{},
		event.CatalogChanged{Change: event.Change{Lists: []event.ListChange{list}}},
		event.ListFailed{Cause: cause},
		event.Pinned{},
		event.Unapproved{New: []string{"secret-value"}},
		event.CloseFailed{Cause: cause},
		event.Operated{},
		event.DrillBegan{},
		event.DrillEnded{},
		event.CallReplayed{Cause: cause},
		event.CallFailed{Cause: cause},
	} {
		d := dataOf(e)
		line := ""
		for l := range strings.Lines(rest) {
			if cells := strings.Split(l, "|"); len(cells) > 2 && strings.Contains(cells[1], "`"+EventKind(e)+"`") {
				line = cells[2]
			}
		}
		for key := range d {
			if !strings.Contains(line, "`"+key+"`") {
				t.Errorf("%s: %s is not documented", EventKind(e), key)
			}
		}
		hidden := hideData(d, func(s string) string { return strings.ReplaceAll(s, "secret-value", "***") })
		if text := fmt.Sprint(hidden); len(hidden) != len(d) || strings.Contains(text, "secret-value") {
			t.Errorf("%s: %s", EventKind(e), text)
		}
	}
}

// One function says whether everline is ready, and each probe names what is not.
func TestProbesSayWhatIsNotReady(t *testing.T) {
	a := New(Options{Hub: newFake(t)})
	get := func(serve http.HandlerFunc, query string) (int, string) {
		w := httptest.NewRecorder()
		serve(w, httptest.NewRequest(http.MethodGet, "/"+query, nil))
		return w.Code, w.Body.String()
	}
	for _, c := range []struct {
		query string
		code  int
		in    string
	}{
		{"", 503, `"server":"down"`},
		{"?server=up", 200, `{"status":"ok"}`},
		{"?server=up&verbose", 200, `"state":"connected"`},
		{"?server=down", 503, `"missing":["down"]`},
		{"?server=nobody", 404, `not_found`},
		{"?verbose", 503, `"server":"up"`},
	} {
		if code, body := get(a.Readyz, c.query); code != c.code || !strings.Contains(body, c.in) {
			t.Errorf("%s: %d %s", c.query, code, body)
		}
	}
	if a.Ready() {
		t.Error("ready, and /readyz is not")
	}
	if code, body := get(a.Startupz, ""); code != 503 || !strings.Contains(body, "starting") {
		t.Errorf("right after the start: %d %s", code, body)
	}
	a.started = a.started.Add(-time.Minute)
	if code, _ := get(a.Startupz, ""); code != 200 {
		t.Errorf("a minute later: %d", code)
	}
}
