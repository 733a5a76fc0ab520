package gateway

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/everline/everline/internal/mcp"
)

// tidy serves a path that people type as the one that they mean: "/mcp/",
// "//mcp" and "/a/../mcp" are "/mcp". It does so in place, because a redirect
// turns the POST of many clients into a GET.
func tidy(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path, ok := tidied(r.URL); ok {
			u := *r.URL
			u.Path, u.RawPath = path, ""
			clone := *r
			clone.URL = &u
			r = &clone
		}
		next.ServeHTTP(w, r)
	})
}

// tidied is the path of u without what is superfluous in it; ok is false if
// there is nothing to change. No name in our paths has a slash, so what is
// escaped means the same as what is not.
func tidied(u *url.URL) (path string, ok bool) {
	if u.RawPath == "" && !strings.Contains(u.Path, "//") && !strings.Contains(u.Path, "/.") &&
		(u.Path == "/" || !strings.HasSuffix(u.Path, "/")) {
		return "", false
	}
	var kept []string
	for part := range strings.SplitSeq(u.Path, "/") {
		switch {
		case part == "" || part == ".":
		case part == ".." && len(kept) > 0:
			kept = kept[:len(kept)-1]
		case part == "..":
		default:
			kept = append(kept, part)
		}
	}
	return "/" + strings.Join(kept, "/"), true
}

// paths says what is served where, for whoever comes to another place.
const paths = "everline serves MCP at /mcp (Streamable HTTP), at /sse (HTTP+SSE), and the servers of a group at /groups/NAME/mcp."

// serveRoot explains the endpoint to a person, and to a client that was given
// the address without the path.
func (g *Gateway) serveRoot(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead || readAccept(r.Header["Accept"]) == (accepted{events: true}) {
		g.lost(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(paths + "\n")) // a client that is gone hears nothing
}

// lost refuses a request for a path that is none of ours.
func (g *Gateway) lost(w http.ResponseWriter, r *http.Request) {
	g.reject(w, http.StatusNotFound, mcp.CodeInvalidRequest, "Nothing is served at "+r.URL.Path+". "+paths)
}
