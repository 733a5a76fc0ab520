package gateway

import (
	"context"
	"net/http"

	"github.com/everline/everline/internal/access"
)

// identified lets requests of somebody through, who is in their context from there
// on.
func (g *Gateway) identified(next http.Handler) http.Handler {
	if g.opts.Entrance == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := g.opts.Entrance.Enter(w, r)
		if seen, ok := w.(*refusalWriter); ok {
			seen.who = who
		}
		switch who {
		case nil:
			g.opts.Meter.Auth.Add(1)
		case access.From(r.Context()): // of its connection
			next.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r.WithContext(access.With(r.Context(), who)))
		}
	})
}

// whose is the identity of a request that identified has let through.
func (svc *service) whose(ctx context.Context) *access.Identity {
	if svc.opts.Entrance == nil {
		return access.Local()
	}
	return access.From(ctx)
}

// Recheck ends what belongs to identities that the Entrance does not admit any more:
// their sessions, with all that these have, and their requests.
func (g *Gateway) Recheck() {
	if g.opts.Entrance == nil {
		return
	}
	for _, each := range append(g.parts.list(), g) {
		if !g.opts.Entrance.Admits(each.who) {
			each.inflight.cancelAll(errNoMore)
			each.inputs.cancelAll(errNoMore)
			each.sessions.ConcludeAll()
		}
	}
}

// whileGood is ctx for a stream: it ends when what its client has shown is good no
// more. The client comes back with something newer, and goes on.
func (svc *service) whileGood(ctx context.Context) (context.Context, context.CancelFunc) {
	if until := svc.whose(ctx).Expires(); !until.IsZero() {
		return context.WithDeadline(ctx, until)
	}
	return ctx, func() {}
}
