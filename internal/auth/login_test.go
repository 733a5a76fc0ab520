package auth

import (
	"testing"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcptest/authserver"
)

func TestLoginAndCall(t *testing.T) {
	inBubble(t, authserver.Script{Listed: []string{"mcp:read", "offline_access"}, Subject: "alice"}, func(r *rig) {
		m := r.manager(nil)
		r.serveCallback(m)
		s := m.Source(r.spec())
		f := r.call(s)
		r.wantFault(f, fault.Unauthorized, "nobody has logged in", "run: everline auth login docs")
		st := r.wantPhase(s, NeedsLogin)
		r.logIn(m, LoginOptions{})
		select {
		case <-st.Changed:
		default:
			t.Error("nobody is woken by a login")
		}
		r.mustCall(s)
		st = r.wantPhase(s, OK)
		if st.Issuer != issuerURL || st.Subject != "alice" || len(st.Scopes) != 1 || st.Scopes[0] != "offline_access" || st.ExpiresAt.IsZero() {
			t.Errorf("%+v", st)
		}
		second := r.manager(nil) // a restart
		s = second.Source(r.spec())
		r.mustCall(s)
		if n := len(r.as.Requests("/register")); n != 1 {
			t.Errorf("%d registrations", n)
		}
		if got := r.as.Requests("/register")[0].JSON; got["application_type"] != "native" || got["token_endpoint_auth_method"] != "none" {
			t.Errorf("registered as %v", got)
		}
	})
}
