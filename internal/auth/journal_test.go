package auth

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/everline/everline/internal/mcptest/authserver"
)

// journal is what stands in the journal of the rig's login.
func (r *rig) journal() []byte {
	r.Helper()
	m := New(r.options())
	defer m.Close()
	raw, err := os.ReadFile(m.lockPath(key{Resource: siteURL, Issuer: issuerURL}, refreshLock))
	if err != nil {
		r.Fatal(err)
	}
	return raw
}

// A process that has the answer of an issuer that rotates, and is killed before
// the store has it, has lost nothing: the next one finds it, and asks for nothing.
func TestAnswerOutlivesAKillBeforeItIsStored(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		_, s := r.loggedIn(nil)
		unlock, err := lockFile(r.Context(), filepath.Join(r.dir, storeLock)) // nobody can write
		if err != nil {
			t.Fatal(err)
		}
		r.as.Revoke()
		_ = s.Refused(r.Context(), Ticket{Serial: s.State().Serial}, 401, nil)
		unlock()
		if raw := string(r.journal()); len(raw) == 0 || strings.Contains(raw, "refresh-") || strings.Contains(raw, "access-") {
			t.Fatalf("the journal is %q", raw)
		}
		asked := len(r.as.Requests("/token"))
		next := r.manager(nil)
		again := next.Source(r.spec())
		r.mustCall(again)
		if n := len(r.as.Requests("/token")) - asked; n != 0 || r.as.Families() != 1 {
			t.Errorf("%d requests to the issuer, %d logins alive", n, r.as.Families())
		}
		if raw := r.journal(); len(raw) != 0 {
			t.Errorf("%d bytes stay in the journal", len(raw))
		}
		r.as.Revoke()
		r.mustCall(again) // with the refresh token of the answer
		if raw := r.journal(); len(raw) != 0 {
			t.Errorf("%d bytes stay in the journal of a refresh", len(raw))
		}

		// What is left of a refresh that the store has is no reason for another.
		stale := r.manager(nil)
		file, release, err := stale.holdRefresh(r.Context(), key{Resource: siteURL, Issuer: issuerURL})
		if err != nil {
			t.Fatal(err)
		}
		_ = stale.store.mustRead(r.T)
		stale.journalOf(r.Context(), file).put(entry{Spent: "another"})
		release()
		asked = len(r.as.Requests("/token"))
		r.mustCall(r.manager(nil).Source(r.spec()))
		time.Sleep(time.Second)
		if n := len(r.as.Requests("/token")) - asked; n != 0 {
			t.Errorf("%d requests to the issuer", n)
		}
	})
}

// A process that is killed while an answer is on its way leaves word of it: the
// next one tries the same token at once, while an issuer may forgive that. One
// that forgives nothing has ended the login, and the text says why.
func TestRefreshThatWasCutOffIsMadeAgainAtOnce(t *testing.T) {
	for _, grace := range []time.Duration{10 * time.Second, 0} {
		inBubble(t, authserver.Script{Grace: grace}, func(r *rig) {
			m, s := r.loggedIn(nil)
			r.as.Change(func(script *authserver.Script) { script.Lost = true })
			go func() { _ = s.Refused(r.Context(), Ticket{Serial: s.State().Serial}, 401, nil) }()
			for len(r.as.Grants("refresh_token")) == 0 {
				time.Sleep(time.Millisecond)
			}
			m.Close()
			r.as.Change(func(script *authserver.Script) { script.Lost = false })
			if len(r.journal()) == 0 {
				t.Fatal("nothing is noted")
			}
			asked := len(r.as.Grants("refresh_token"))
			s = r.manager(nil).Source(r.spec())
			r.mustCall(s) // the old token is good still: the refresh is not for its sake
			time.Sleep(time.Second)
			if n := len(r.as.Grants("refresh_token")) - asked; n != 1 {
				t.Errorf("%d refreshes at the start", n)
			}
			st := s.State()
			if alive := r.as.Families() == 1; alive != (grace > 0) || st.Dead == alive {
				t.Errorf("grace %s: alive %t, %+v", grace, alive, st)
			}
			stored, _ := testStore(r.T, r.dir)
			if rec := stored.mustRead(r.T).record(key{Resource: siteURL, Issuer: issuerURL}); grace == 0 && !strings.Contains(rec.Cause, "was cut off") {
				t.Error(rec.Cause)
			}
			if grace > 0 { // and what is in order is not asked about
				r.manager(nil).Source(r.spec())
				time.Sleep(time.Second)
				if n := len(r.as.Grants("refresh_token")) - asked; n != 1 {
					t.Errorf("%d refreshes", n)
				}
			}
		})
	}
}

// Who ends in order takes the answer of a refresh that is on its way, unless that
// takes too long.
func TestCloseTakesTheAnswer(t *testing.T) {
	for _, slow := range []time.Duration{3 * time.Second, time.Minute} {
		inBubble(t, authserver.Script{}, func(r *rig) {
			m, s := r.loggedIn(nil)
			r.as.Change(func(script *authserver.Script) {
				script.Token = func(http.ResponseWriter, url.Values, int) bool { time.Sleep(slow); return false }
			})
			go func() { _ = s.Refused(r.Context(), Ticket{Serial: s.State().Serial}, 401, nil) }()
			for len(r.as.Grants("refresh_token")) == 0 {
				time.Sleep(time.Millisecond)
			}
			began := time.Now()
			m.Close()
			if took := time.Since(began); took > min(slow, closeGrace)+time.Second {
				t.Errorf("the end took %s", took)
			}
			r.as.Change(func(script *authserver.Script) { script.Token = nil })
			if slow > closeGrace {
				return
			}
			time.Sleep(time.Minute)
			s = r.manager(nil).Source(r.spec())
			r.mustCall(s)
			r.wantRefreshes(1)
			if r.as.Families() != 1 {
				t.Error("the login is dead")
			}
		})
	}
}
