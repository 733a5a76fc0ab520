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
		if who := g.opts.Entrance.Enter(w, r); who != nil {
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
