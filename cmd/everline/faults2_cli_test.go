package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
)

// denied VAR CHALLENGE serves nothing but 401 with the challenge until the
// script ends, and sets VAR to its URL.
func denied(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: denied VAR CHALLENGE")
	}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if args[1] != "" {
			w.Header().Set("WWW-Authenticate", args[1])
		}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	ts.Defer(site.Close)
	ts.Setenv(args[0], site.URL+"/mcp")
}

func asFault(err error) *fault.Fault { return fault.From("", err) }

func TestFaultU6(t *testing.T) {
	for _, c := range []struct {
		servers []admin.Server
		state   string
		stuck   string // the name; "" for none
	}{
		{[]admin.Server{{Name: "a", State: "connecting"}}, "connected", ""},
		{[]admin.Server{{Name: "a", State: "disconnected"}}, "connected", ""},
		{[]admin.Server{{Name: "a", State: "failed"}}, "connected", "a"},
		{[]admin.Server{{Name: "a", State: "failed", NextAttempt: new(time.Now())}}, "connected", ""},
		{[]admin.Server{{Name: "a", State: "misconfigured"}}, "connected", "a"},
		{[]admin.Server{{Name: "a", State: "auth_required"}}, "connected", "a"},
		{[]admin.Server{{Name: "a", State: "auth_required"}}, "auth_required", ""},
		{[]admin.Server{{Name: "a", State: "disabling"}}, "disabled", ""},
		{[]admin.Server{{Name: "a", State: "connected"}, {Name: "b", State: "misconfigured"}}, "connected", "b"},
		{[]admin.Server{{Name: "a", State: "connecting"}, {Name: "b", State: "misconfigured"}}, "connected", ""},
	} {
		got := ""
		if s := stuckOne(c.servers, c.state); s != nil {
			got = s.Name
		}
		if got != c.stuck {
			t.Errorf("%+v, waited for to be %s: %q is stuck, want %q", c.servers, c.state, got, c.stuck)
		}
	}
	tell(t, "u6")
}

func TestFaultU19(t *testing.T) { tell(t, "u19") }

func TestFaultU20(t *testing.T) { tell(t, "u20") }
