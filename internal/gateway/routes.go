package gateway

import (
	"net/http"
	"strconv"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
	"github.com/everline/everline/internal/policy"
)

// A Route is one path of an endpoint, as http.ServeMux takes it.
type Route struct {
	Pattern string
	Serve   http.HandlerFunc
	Open    bool // to everybody, whatever the Entrance says
	Public  bool // to everybody, from pages of every origin as well; which of them may read it the route says itself
}

// Handler serves /mcp for Streamable HTTP of both eras, /sse and /messages for
// clients of HTTP+SSE, the same below /groups/<group> for each group, and
// further routes. /mcp/<group> is the older name of /groups/<group>/mcp. Origin
// and Host are checked on every route. The server must be one of Server, and
// accept its connections from Listener.
func (g *Gateway) Handler(more ...Route) http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, serve http.HandlerFunc) { mux.Handle(pattern, g.identified(serve)) }
	for _, path := range []string{"/mcp", "/mcp/{group}", "/groups/{group}/mcp"} {
		handle(path, g.ofPart((*Gateway).serveMCP))
	}
	for _, prefix := range []string{"", "/groups/{group}"} {
		handle(prefix+"/sse", only(http.MethodGet, g.ofPart((*Gateway).serveSSE)))
		messages := only(http.MethodPost, g.ofPart((*Gateway).serveMessages))
		handle(prefix+"/messages", messages)
		handle(prefix+"/sse/messages", messages) // of a client that was given "/sse/"
	}
	public := http.NewServeMux()
	for _, r := range more {
		if r.Public {
			public.HandleFunc(r.Pattern, r.Serve)
		}
		if r.Open || r.Public {
			mux.HandleFunc(r.Pattern, r.Serve)
		} else {
			handle(r.Pattern, r.Serve)
		}
	}
	handle("/{$}", g.serveRoot)
	handle("/", g.lost)
	return g.refusals(g.unread(g.guard.wrap(tidy(mux), public)))
}

// only refuses all other methods: HEAD as well, which is a GET to a ServeMux, and
// would open a session.
func only(method string, serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != method {
			w.Header().Set("Allow", method)
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		serve(w, r)
	}
}

// ofPart serves what the identity of a request has at its path: on a Backend and with
// sessions of its own.
func (g *Gateway) ofPart(serve func(*Gateway, http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, group := g.whose(r.Context()), r.PathValue("group")
		p := g.part("", who)
		if p != nil && group != "" && p.backend.May() != nil {
			p.leave()
			p = g.part(group, who)
		}
		switch {
		case p == nil && g.closing():
			g.ending(w, &message.Message{})
			return
		case p == nil && group != "":
			g.reject(w, http.StatusNotFound, mcp.CodeInvalidRequest, "no group has this name: "+strconv.Quote(group)+". "+paths)
			return
		case p == nil:
			g.busy(w, "Too many clients are known")
			return
		}
		defer p.leave()
		if p.backend.May() == nil {
			p.forbid(w, r)
			return
		}
		serve(p, w, r)
	}
}

// forbid refuses who is granted nothing.
func (g *Gateway) forbid(w http.ResponseWriter, r *http.Request) {
	g.refused(r.Method, nil, policy.ReasonNothing, 0)
	refusalOf(r.Context()).because(nil, policy.ReasonNothing)
	if g.opts.Entrance != nil {
		g.opts.Entrance.NothingGranted(w.Header(), r, g.who)
	}
	g.reject(w, http.StatusForbidden, mcp.CodeForbidden, nothingGranted)
}
