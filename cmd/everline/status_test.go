package main

import (
	"strings"
	"testing"
	"time"

	"github.com/everline/everline/event"
	"github.com/everline/everline/internal/admin"
)

// TestHealth: where a server is required the others do not decide, and a
// required one has to take calls.
func TestHealth(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		states string // with "!" for a required server
		want   int
	}{
		{"connected idle disabled disabling", exitOK},
		{"connected failed", exitDegraded},
		{"auth_required connected", exitAuth},
		{"auth_required reconnecting", exitDegraded},
		{"disconnected auth_required", exitDegraded},
		{"connected! idle! failed auth_required misconfigured", exitOK},
		{"failed! connected", exitDegraded},
		{"auth_required! failed", exitAuth},
		{"disabled! connected", exitDegraded},
	} {
		var servers []admin.Server
		for state := range strings.FieldsSeq(c.states) {
			name, required := strings.CutSuffix(state, "!")
			servers = append(servers, admin.Server{State: event.State(name), Required: required})
		}
		if got := health(servers); got != c.want {
			t.Errorf("%s: %d, want %d", c.states, got, c.want)
		}
	}
}

// TestStatusOfOneServer has an outage of one server in its fifth attempt, while
// the files are refused: the head is about everline as a whole.
func TestStatusOfOneServer(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 10, 5, 0, 0, time.Local)
	at := func(d time.Duration) *time.Time { return new(now.Add(d)) }
	st := admin.Status{
		StartedAt: now.Add(-time.Hour), Config: []string{"/etc/everline.json"},
		Servers: []admin.Server{
			{Name: "web", State: "reconnecting", Generation: 5, Transport: "http", Since: at(-200 * time.Millisecond), AwaySince: at(-20 * time.Second), Origin: "e:1"},
			{Name: "bad", State: "misconfigured", Transport: "stdio"},
		},
	}
	const want = "everline   running 60 min   everline.json 1 unusable server   2 servers: 1 reconnecting \u00b7 1 misconfigured\n" +
		" \u25d0 web  reconnecting  gen 5  -  http   away 20 s\n"
	if got := (statusPrinter{now: now}).page(st, only(st.Servers, "web")); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if wide := (statusPrinter{now: now, wide: true}).page(st, only(st.Servers, "web")); !strings.Contains(wide, "away 20 s") || !strings.Contains(wide, "reconnecting for 0.2 s") {
		t.Errorf("wide:\n%s", wide)
	}
	st.ConfigError, st.ConfigRemedy, st.ConfigErrorSince = new("e.json is not trusted"), new("everline trust e.json"), at(-3*time.Minute)
	const refused = "not reloaded for 3 min: e.json is not trusted\n     try: everline trust e.json\n"
	if got := (statusPrinter{now: now}).page(st, only(st.Servers, "web")); !strings.HasSuffix(got, refused) || !strings.Contains(got, "everline.json not reloaded") {
		t.Errorf("got\n%s", got)
	}
	if len(only(st.Servers, "nobody")) != 0 || len(only(st.Servers, "")) != 2 {
		t.Error("only does not select")
	}
}
