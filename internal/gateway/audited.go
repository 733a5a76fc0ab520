package gateway

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/access"
	"github.com/everline/everline/internal/audit"
	"github.com/everline/everline/internal/gateway/session"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/policy"
	"github.com/everline/everline/internal/wire"
)

// witness sees what becomes of the calls of one request. It is nil where nothing is
// recorded. A fault says that the request may not be served, because it cannot be
// recorded.
func (svc *service) witness(ctx context.Context, x *exchange, out *everline.Call) (*audit.Witness, *fault.Fault) {
	log := svc.opts.Audit
	if log.Off() || unrecorded(x.Method) {
		return nil, nil
	}
	if w := refusalOf(ctx); w != nil {
		w.recorded = true
	}
	name, _ := x.ItemName()
	w, f := log.Witness(x.Method, name, func(r *audit.Record) {
		r.Actor, r.Request.ID = svc.actor(x), string(x.ID)
		svc.decided(r, name)
		r.TraceID = cmp.Or(r.TraceID, traceOf(x))
		if x.Method == mcp.ToolsCall && r.Target.Server != "" {
			r.Target.Definition = svc.definitions.of(svc.backend.Catalog(), r.Target.Server, r.Target.Tool)
		}
		log.Describe(r.Request, x.Fields.Arguments)
	})
	if w != nil {
		out.Observe = w.Observe
	}
	return w, f
}

// unrecorded are the requests that change nothing and tell nothing but what a
// recorded one has caused.
func unrecorded(method string) bool {
	switch method {
	case mcp.CompletionComplete, mcp.TasksGet, mcp.TasksList, mcp.TasksResult:
		return true
	default:
		return false
	}
}

// traceOf is the trace that the client's request is part of; "" for none.
func traceOf(x *exchange) string {
	c := callerOf(wire.Text(x.Fields.Meta.TraceParent))
	if !c.Valid() {
		return ""
	}
	return hex.EncodeToString(c.Trace[:])
}

// decided puts in which policy has let a call through, or has not, and by which rule.
// name is what the client asked for.
func (svc *service) decided(r *audit.Record, name string) {
	may := svc.backend.May()
	if may == policy.Everything {
		return
	}
	own := name
	if r.Target.Server != "" {
		own = r.Target.Tool
	}
	d := svc.backend.Decide(r.Action, r.Target.Server, own)
	r.Policy, r.Rule = strings.Join(d.Policies, "+"), cmp.Or(d.Rule, d.Reason)
	if r.Policy == "" && d.Reason == "" { // nobody has such a thing
		r.Policy = may.Name()
	}
}

// actor is who sent a message, as far as it shows.
func (svc *service) actor(x *exchange) audit.Actor {
	a := actorOf(svc.who, x.addr())
	if x.sess != nil && !x.Modern {
		a.ID = x.sess.ID()
		a.Name, a.Version = x.sess.ClientInfo()
		a.Session = sessionHash(x.sess.Key)
		if a.Addr == "" {
			a.Addr = hostOf(x.sess.Addr)
		}
		return a
	}
	a.ID = x.client
	a.Name, a.Version = session.ReadClientInfo(x.Fields.Meta.ClientInfo)
	if name, ok := x.sessionName(); ok {
		a.Session = sessionHash(name)
	}
	return a
}

// actorOf is an identity at the other end of a connection; nil for none.
func actorOf(who *access.Identity, addr string) audit.Actor {
	a := audit.Actor{Kind: audit.Client, Addr: hostOf(addr), Subject: who.Subject()}
	if a.Subject == "" {
		return a
	}
	if uid, ok := who.UID(); ok {
		a.UID = &uid
	}
	return a
}

// sessionHash stands for the id of a session, which opens it.
func sessionHash(id string) string {
	if id == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:8])
}

func hostOf(addr string) string {
	if host, _, err := net.SplitHostPort(addr); err == nil {
		return host
	}
	return addr
}

// sessionChanged has recorded that a session was opened, has expired or was ended.
func (svc *service) sessionChanged(s *session.Session, how string) {
	if !svc.opts.Audit.Wants(audit.TypeSession) {
		return
	}
	a := actorOf(svc.who, s.Addr)
	a.ID, a.Session = s.ID(), sessionHash(strings.TrimSpace(s.Key))
	a.Name, a.Version = s.ClientInfo()
	r := &audit.Record{Type: audit.TypeSession, Action: how, Outcome: audit.OK, Actor: a}
	if may := svc.backend.May(); may != policy.Everything {
		r.Policy = may.Name()
	}
	svc.opts.Audit.Note(r)
}

// definitions are the hashes of tools' definitions, by the table that has them.
type definitions struct {
	mu    sync.Mutex // guards the rest; nothing waits under it
	table *everline.Catalog
	sums  map[[2]string]string
}

func (d *definitions) of(table *everline.Catalog, server, tool string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.table != table {
		d.table, d.sums = table, map[[2]string]string{}
	}
	key := [2]string{server, tool}
	sum, known := d.sums[key]
	if !known {
		if text := table.Definition(server, tool); text != nil {
			sum = audit.Hash(text)
		}
		d.sums[key] = sum
	}
	return sum
}

// refusals has recorded the requests that are refused before any server is meant.
// Those that show a bad credential are recorded by the Entrance.
func (g *Gateway) refusals(next http.Handler) http.Handler {
	if g.opts.Audit == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.opts.Audit.Wants(audit.TypeRefusal) {
			next.ServeHTTP(w, r)
			return
		}
		rw := &refusalWriter{ResponseWriter: w}
		next.ServeHTTP(rw, r.WithContext(context.WithValue(r.Context(), refusalKey{}, rw)))
		if rw.status < http.StatusBadRequest || rw.recorded || rw.status == http.StatusUnauthorized && r.Header.Get("Authorization") != "" {
			return
		}
		g.opts.Audit.Refuse(&audit.Record{
			Type: audit.TypeRefusal, Action: r.Method, Outcome: audit.Refused, Kind: strconv.Itoa(rw.status), Cause: rw.cause(),
			Actor: actorOf(rw.who, r.RemoteAddr), Target: &audit.Target{Path: r.URL.Path}, Policy: rw.policy, Rule: rw.rule,
		})
	})
}

// recordRefusal has recorded that policies refuse the request of an exchange.
func (svc *service) recordRefusal(x *exchange, may *policy.Scope, reason string, kind fault.Kind) {
	if !svc.opts.Audit.Wants(audit.TypeRefusal) {
		return
	}
	if w := x.refusal(); w != nil {
		w.recorded = true
	}
	r := &audit.Record{
		Type: audit.TypeRefusal, Action: x.Method, Outcome: audit.Refused, Kind: kind.String(), Actor: svc.actor(x),
		Request: &audit.Request{ID: string(x.ID), Bytes: len(x.Params)}, Policy: may.Name(), Rule: reason,
	}
	if name, ok := x.ItemName(); ok && x.Method != mcp.ResourcesRead {
		r.Target = &audit.Target{Exposed: name}
	}
	svc.opts.Audit.Refuse(r)
}

type refusalKey struct{}

// refusalOf is what sees how the request of ctx is answered; nil for nothing.
func refusalOf(ctx context.Context) *refusalWriter {
	w, _ := ctx.Value(refusalKey{}).(*refusalWriter)
	return w
}

// refusal is refusalOf the request of an exchange.
func (x *exchange) refusal() *refusalWriter {
	if x.request == nil {
		return nil
	}
	return refusalOf(x.request.Context())
}

// A refusalWriter sees how a request is answered, and whether its call is recorded.
type refusalWriter struct {
	http.ResponseWriter
	status   int
	body     []byte
	recorded bool

	who          *access.Identity // nil: not known, or not known yet
	policy, rule string           // by which it is refused; "" where it is not policies that do
}

// because keeps that policies refuse the request, and what for. w may be nil.
func (w *refusalWriter) because(may *policy.Scope, reason string) {
	if w != nil {
		w.policy, w.rule = may.Name(), reason
	}
}

// Unwrap is for http.ResponseController.
func (w *refusalWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *refusalWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// maxRefusal is how much of a refusal is looked at for why.
const maxRefusal = 4 << 10

func (w *refusalWriter) Write(p []byte) (int, error) {
	if w.status >= http.StatusBadRequest {
		w.body = append(w.body, p[:min(len(p), maxRefusal-len(w.body))]...)
	}
	return w.ResponseWriter.Write(p)
}

// cause is what the refusal says.
func (w *refusalWriter) cause() string {
	if text, ok := wire.Text(wire.Get(w.body, "error", "message")); ok {
		return text
	}
	return string(bytes.TrimSpace(w.body))
}
