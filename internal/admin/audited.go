package admin

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/audit"
	"github.com/everline/everline/internal/mcp"
)

// syncLimit is how long the answer to what was done waits for its record.
const syncLimit = 2 * time.Second

// audited has recorded what requests do, before they are answered. Requests that
// change nothing are not: GET, ping, and calls, which are recorded as such.
func (a *API) audited(next http.Handler) http.Handler {
	if a.opts.Audit == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		actor := actorOf(r)
		if f := a.mayRecord(r); f != nil {
			a.fail(w, f)
			return
		}
		d := &doing{ResponseWriter: w, log: a.opts.Audit, actor: actor}
		ctx := context.WithValue(audit.With(r.Context(), actor), doingKey{}, d)
		d.request = r.WithContext(ctx)
		next.ServeHTTP(d, d.request)
	})
}

// mayRecord refuses what cannot be recorded and must be.
func (a *API) mayRecord(r *http.Request) *fault.Fault {
	place, f := a.opts.Audit.Reserve(actionOf(r))
	place.Free() // a doing is one record, and its sync would wait anyway
	return f
}

// actorOf is who sends a request, as its connection tells.
func actorOf(r *http.Request) audit.Actor {
	if known := audit.From(r.Context()); known.Kind != audit.System {
		return known
	}
	a := audit.Actor{Kind: audit.CLI}
	if byWeb(r) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr) // "" where there is none
		return audit.Actor{Kind: audit.Web, Addr: host}
	}
	if p, ok := peerIn(r.RemoteAddr); ok {
		a.UID, a.PID = &p.uid, p.pid
		if fromServer(r.RemoteAddr) {
			a.Kind = audit.Server
		}
	}
	return a
}

type doingKey struct{}

// A doing is the answer to a request that does something: it has it recorded first.
type doing struct {
	http.ResponseWriter
	log     *audit.Log
	actor   audit.Actor
	request *http.Request
	records []*audit.Record // what the handler tells; none: the request stands for itself
	fault   *fault.Fault    // what it failed with; nil if it did not
	ahead   bool            // nothing is done yet
	over    bool
}

// Unwrap is for http.ResponseController.
func (d *doing) Unwrap() http.ResponseWriter { return d.ResponseWriter }

func (d *doing) WriteHeader(status int) {
	d.record(status)
	d.ResponseWriter.WriteHeader(status)
}

func (d *doing) Write(p []byte) (int, error) {
	d.record(http.StatusOK)
	return d.ResponseWriter.Write(p)
}

// did tells what a request has done, where that is more than its path says.
func did(ctx context.Context, r *audit.Record) {
	if d, ok := ctx.Value(doingKey{}).(*doing); ok {
		d.records = append(d.records, r)
	}
}

// ahead tells that a request only asks whether something may be done.
func ahead(ctx context.Context) {
	if d, ok := ctx.Value(doingKey{}).(*doing); ok {
		d.ahead = true
	}
}

func (d *doing) record(status int) {
	if d.over {
		return
	}
	d.over = true
	action := actionOf(d.request)
	if d.ahead {
		return
	}
	if !unrecorded(action) || status == http.StatusForbidden {
		d.note(action, status)
	} else if action != "reload" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.request.Context()), syncLimit)
	defer cancel()
	_ = d.log.Sync(ctx) // it is done; that it may be lost shows in status
}

func (d *doing) note(action string, status int) {
	if len(d.records) == 0 {
		d.records = []*audit.Record{{Type: typeOf(action), Action: action, Target: targetOf(d.request)}}
	}
	for _, r := range d.records {
		r.Outcome, r.Actor = cmp.Or(r.Outcome, audit.OK), d.actor
		switch {
		case status == http.StatusForbidden:
			r.Outcome = audit.Refused
		case status >= http.StatusBadRequest:
			r.Outcome = audit.Failed
		}
		if d.fault != nil {
			r.Kind, r.Cause = d.fault.Kind.String(), d.fault.Reason()
		}
		d.log.Note(r)
	}
}

// unrecorded are actions that change nothing, or are recorded elsewhere.
func unrecorded(action string) bool {
	switch action {
	case "ping", "call", "answer", "reload":
		return true
	default:
		return false
	}
}

func typeOf(action string) string {
	if told := toldTypes[action]; told != "" {
		return told
	}
	if action == "login" || action == "deliver" {
		return audit.TypeAuth
	}
	return audit.TypeAdmin
}

// actionOf is the last word of a path, or what it means.
func actionOf(r *http.Request) string {
	switch rest, page := strings.CutPrefix(r.URL.Path, "/v1/page/"); {
	case page && rest == "code":
		return "page_link"
	case page && rest == "revoke":
		return "page_revoke"
	default:
		return r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	}
}

func targetOf(r *http.Request) *audit.Target {
	if name := r.PathValue("name"); name != "" {
		return &audit.Target{Server: name}
	}
	return nil
}

// witness sees what becomes of a call, as audit.Log.Witness does.
func (a *API) witness(r *http.Request, req CallRequest) (*audit.Witness, *fault.Fault) {
	actor, arguments := actorOf(r), req.Arguments
	return a.opts.Audit.Witness(mcp.ToolsCall, req.Tool, func(rec *audit.Record) {
		rec.Actor = actor
		a.opts.Audit.Describe(rec.Request, arguments)
	})
}

// observer is what sees the facts of a call; nil for nobody.
func (a *API) observer(w *audit.Witness, params []byte) (observe func(event.CallFacts)) {
	if w != nil {
		observe = w.Observe
	}
	if a.opts.Watch != nil {
		observe = a.opts.Watch(params, observe)
	}
	return observe
}

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

// Doing serves a request of the page that does something, as those of Handler are
// served: it is recorded, and none of a server's own.
func (a *API) Doing(next http.Handler) http.Handler { return a.audited(a.refuseServers(next)) }

// Because tells the record of a request of Doing why it is refused.
func Because(w http.ResponseWriter, f *fault.Fault) {
	if d, ok := w.(*doing); ok {
		d.fault = f
	}
}

// auditProblem is why the record cannot be written now.
func (a *API) auditProblem() []Problem {
	since, err := a.opts.Audit.Problem()
	if err == nil {
		return nil
	}
	f := fault.From("audit", err)
	text := "the audit record cannot be written: " + f.Reason()
	if a.opts.Audit.Strict() {
		text += "; audit.strict refuses calls meanwhile"
	}
	return []Problem{{About: AuditFolder, Text: text, Remedy: cmp.Or(f.Remedy, "everline doctor"), Since: since}}
}
