package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
)

// refuseServers lets the processes that everline itself has started look, and
// change nothing: a server must not approve its own definitions.
func (a *API) refuseServers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead && fromServer(r.RemoteAddr) {
			a.fail(w, &fault.Fault{
				Kind: fault.Forbidden, Op: "admin", Outcome: fault.NotSent,
				Err:    errors.New("a server of this everline, or what it has started, may not change or call anything here"),
				Remedy: "run the command in a terminal of your own",
			})
			return
		}
		next.ServeHTTP(w, r)
	})
}

type web struct{}

// FromWeb marks the requests of the page, which are told apart from those of the
// command line.
func FromWeb(ctx context.Context) context.Context { return context.WithValue(ctx, web{}, true) }

func byWeb(r *http.Request) bool { return r.Context().Value(web{}) != nil }

// callerBy is who makes a call, as the records of calls name it.
func callerBy(r *http.Request) *event.Caller {
	if byWeb(r) {
		return &event.Caller{Name: "web page"}
	}
	return &event.Caller{Name: "everline call"}
}

// Operated keeps in the journal that a request has changed something.
func (a *API) Operated(r *http.Request, server, action, detail string) {
	by := "cli"
	if byWeb(r) {
		by = "web"
	}
	a.opts.Journal.Record(event.Operated{Head: event.Head{Time: time.Now(), Server: server}, By: by, Action: action, Detail: detail})
}
