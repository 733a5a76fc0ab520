package admin

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/event"
)

// Nothing here asks a server anything: a probe must not be what brings one down.

const (
	wellAge  = 5 * time.Second // how old the answer of /healthz may be
	lockTime = time.Second     // how long a lock that everybody needs may be held
)

// wellness is what /healthz found last.
type wellness struct {
	mu    sync.Mutex // guards the rest; held while it is found out, so that one does it for all
	at    time.Time
	parts []string
}

// Well names the parts of everline that do not work; none if all is well. What the
// servers do has no part in it. It takes some seconds at most.
func (a *API) Well(ctx context.Context) []string {
	w := &a.well
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at.IsZero() || time.Since(w.at) > wellAge {
		w.parts = nil
		if !Locks(&a.opts.Journal.mu, lockTime) {
			w.parts = append(w.parts, "the journal is locked")
		}
		if a.opts.Stuck != nil {
			w.parts = append(w.parts, a.opts.Stuck(ctx)...)
		}
		w.at = time.Now()
	}
	return slices.Clone(w.parts)
}

// Locks tells whether a lock can be had within a time.
func Locks(mu interface {
	TryLock() bool
	Unlock()
}, limit time.Duration,
) bool {
	for end := time.Now().Add(limit); ; time.Sleep(limit / 100) {
		if mu.TryLock() {
			mu.Unlock()
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// Healthz says that everline itself works, whatever the servers do.
func (a *API) Healthz(w http.ResponseWriter, r *http.Request) {
	if parts := a.Well(r.Context()); len(parts) > 0 {
		answer(w, http.StatusServiceUnavailable, Health{Status: "not well", Parts: parts})
		return
	}
	h := Health{Status: "ok"}
	if slices.ContainsFunc(a.opts.Hub.Problems(), func(p everline.Problem) bool { return p.About == "state" }) {
		h.Warnings = []string{"what is to be kept cannot be written to the state folder: everline status says why"} // who asks may be anybody
	}
	answer(w, http.StatusOK, h)
}

// Startupz says that the very first list does not wait for servers any more.
func (a *API) Startupz(w http.ResponseWriter, _ *http.Request) {
	if time.Since(a.started) < a.opts.Hub.Config().FirstListWait {
		answer(w, http.StatusServiceUnavailable, Health{Status: "starting"})
		return
	}
	answer(w, http.StatusOK, Health{Status: "ok"})
}

// Readyz answers 503 and names the required servers that cannot take calls, with
// why. ?server=NAME asks for that one alone, required or not; ?verbose describes
// all that were looked at.
func (a *API) Readyz(w http.ResponseWriter, r *http.Request) {
	if a.Stopping() {
		answer(w, http.StatusServiceUnavailable, Health{Status: "stopping"})
		return
	}
	name := r.URL.Query().Get("server")
	looked := a.readiness(name)
	if name != "" && len(looked) == 0 {
		a.fail(w, a.noServer("ready", name))
		return
	}
	h, code := Health{Status: "ok"}, http.StatusOK
	for _, s := range looked {
		if !s.Ready {
			h.Missing = append(h.Missing, s.Server)
			h.Status, code = "not ready", http.StatusServiceUnavailable
		}
		if !s.Ready || r.URL.Query().Has("verbose") {
			h.Servers = append(h.Servers, s)
		}
	}
	answer(w, code, h)
}

// ReadyzBriefly is Readyz without a word of any server.
func (a *API) ReadyzBriefly(w http.ResponseWriter, _ *http.Request) {
	switch {
	case a.Stopping():
		answer(w, http.StatusServiceUnavailable, Health{Status: "stopping"})
	case !a.Ready():
		answer(w, http.StatusServiceUnavailable, Health{Status: "not ready"})
	default:
		answer(w, http.StatusOK, Health{Status: "ok"})
	}
}

// Ready tells whether everline serves, and every required server can take calls.
func (a *API) Ready() bool {
	return !a.Stopping() && !slices.ContainsFunc(a.readiness(""), func(s Readiness) bool { return !s.Ready })
}

// Stopping tells whether EndStreams was called.
func (a *API) Stopping() bool {
	select {
	case <-a.stop:
		return true
	default:
		return false
	}
}

// readiness looks at the required servers, or at one. It is the only place that
// says whether a server is ready: one that is idle is.
func (a *API) readiness(only string) []Readiness {
	var all []Readiness
	hide := a.hide()
	for _, s := range a.opts.Hub.Config().Servers {
		if only == "" && !s.Required || only != "" && s.Name != only {
			continue
		}
		st, ok := a.opts.Hub.Server(s.Name)
		r := Readiness{Server: s.Name, State: st.State, NextAttempt: knownTime(st.Next)}
		r.Ready = ok && (st.State == event.StateConnected || st.State == event.StateIdle)
		if st.Cause != nil {
			r.Cause = known(hide(st.Cause.Reason()))
		}
		all = append(all, r)
	}
	return all
}
