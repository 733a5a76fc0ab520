package gateway

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
	"github.com/everline/everline/internal/meter"
	"github.com/everline/everline/internal/wire"
)

// A guard refuses requests that a web page made a browser send: those under a
// name that is not ours (DNS rebinding), and those of an origin that is not
// allowed. It is no authentication.
type guard struct {
	hosts, origins []string // lower case; see Options
	meter          *meter.Endpoint
}

func newGuard(hosts, origins []string) guard {
	return guard{hosts: lower(hosts), origins: lower(origins)}
}

func lower(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = strings.TrimSuffix(strings.ToLower(n), "/")
	}
	return out
}

// wrap lets through to next what is not refused. What is public is served to pages
// of other origins, too: by public itself, so that no path is one thing when it is
// looked at and another when it is served.
func (g guard) wrap(next http.Handler, public *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		why := g.refusal(r)
		if why != "" && g.host(r.Host) && has(public, r) {
			if !isPreflight(r) || !share(w, r, "*") {
				public.ServeHTTP(w, r)
			}
			return
		}
		if why != "" {
			if g.host(r.Host) {
				g.meter.Origin.Add(1)
			} else {
				g.meter.Host.Add(1)
			}
			a := message.Answer{Status: http.StatusForbidden, Head: wire.AppendError(nil, nil, mcp.CodeInvalidRequest, "Forbidden: "+why, nil)}
			writeJSON(w, &a)
			return
		}
		if origin := r.Header.Get("Origin"); origin != "" && share(w, r, origin) {
			return
		}
		next.ServeHTTP(w, r)
	})
}

func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

// has tells whether a ServeMux serves what a request is for, or what its preflight
// asks about.
func has(mux *http.ServeMux, r *http.Request) bool {
	asked := *r
	if isPreflight(r) {
		asked.Method = r.Header.Get("Access-Control-Request-Method")
	}
	_, pattern := mux.Handler(&asked)
	return pattern != ""
}

// refusal says why a request is not let in; "" if it is.
func (g guard) refusal(r *http.Request) string {
	switch origins := r.Header["Origin"]; {
	case !g.host(r.Host):
		return "the endpoint is not served under the name " + r.Host + " (Host); everline serve --allow-host NAME adds one"
	case len(origins) == 0 && !g.fetched(r.Header["Sec-Fetch-Site"]):
		return "a page of another origin made the browser send this (Sec-Fetch-Site)"
	case !g.origin(origins, r.Host):
		return "pages of " + strings.Join(origins, ", ") + " may not use the endpoint (Origin); everline serve --allow-origin ORIGIN allows them"
	default:
		return ""
	}
}

// fetched tells whether a request without an origin may come in: a browser says
// in Sec-Fetch-Site whose page caused it, with images and scripts as well.
func (g guard) fetched(site []string) bool {
	return len(site) == 0 || slices.Contains(g.origins, "*") ||
		len(site) == 1 && (site[0] == "same-origin" || site[0] == "none") // "none" is a person, by hand
}

// readable are the headers of a response that a page of an allowed origin may read:
// its session, where to log in, and when to come again.
const readable = mcp.HeaderSession + ", " + mcp.HeaderVersion + ", WWW-Authenticate, Retry-After"

// share lets the page of an allowed origin read the response (CORS). It is
// true for a preflight, which it has answered.
func share(w http.ResponseWriter, r *http.Request, origin string) bool {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", readable)
	h.Add("Vary", "Origin")
	if !isPreflight(r) {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	if names := r.Header.Get("Access-Control-Request-Headers"); names != "" {
		h.Set("Access-Control-Allow-Headers", names) // Mcp-Param-* may be any
	}
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}

// HasHost tells whether the endpoint may be reached under the Host of a request.
func (g *Gateway) HasHost(hostport string) bool { return g.guard.host(hostport) }

// host tells whether the endpoint may be reached under this name.
func (g guard) host(hostport string) bool {
	if hostport == "" {
		return false
	}
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	return loopback(host) || slices.ContainsFunc(g.hosts, func(allowed string) bool {
		return allowed == "*" || allowed == host || allowed == strings.ToLower(hostport)
	})
}

// origin tells whether pages of this origin may use the endpoint: those that are
// allowed, and those of the name and port under which it was reached, which host
// has checked. A client that is no browser sends none.
func (g guard) origin(values []string, host string) bool {
	if len(values) == 0 {
		return true
	}
	if len(values) > 1 {
		return false
	}
	o, host := strings.ToLower(values[0]), strings.ToLower(host)
	return slices.Contains(g.origins, "*") || slices.Contains(g.origins, o) || o == "http://"+host || o == "https://"+host
}

func loopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
