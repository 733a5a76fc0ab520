package gateway

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// A guard refuses requests that a web page made a browser send: those under a
// name that is not ours (DNS rebinding), and those of an origin that is not
// allowed. It is no authentication.
type guard struct {
	hosts, origins []string // lower case; see Options
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

const forbidden = `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Forbidden: `

func (g guard) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.host(r.Host) {
			refuseWith(w, "this name is not one that the endpoint serves (Host)")
			return
		}
		if !g.origin(r.Header["Origin"]) {
			refuseWith(w, "pages of this origin may not use the endpoint (Origin)")
			return
		}
		if origin := r.Header.Get("Origin"); origin != "" && share(w, r, origin) {
			return
		}
		next.ServeHTTP(w, r)
	})
}

// share lets the page of an allowed origin read the response (CORS). It is
// true for a preflight, which it has answered.
func share(w http.ResponseWriter, r *http.Request, origin string) bool {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", sessionHeader+", "+versionHeader)
	h.Add("Vary", "Origin")
	asked := r.Header.Get("Access-Control-Request-Method")
	if r.Method != http.MethodOptions || asked == "" {
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

func refuseWith(w http.ResponseWriter, text string) {
	w.Header()["Content-Type"] = jsonType
	w.WriteHeader(http.StatusForbidden)
	_, _ = w.Write([]byte(forbidden + text + `"}}`)) // a client that is gone hears nothing
}

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

// origin tells whether pages of this origin may use the endpoint. A client
// that is no browser sends none.
func (g guard) origin(values []string) bool {
	if len(values) == 0 {
		return true
	}
	if len(values) > 1 {
		return false
	}
	o := strings.ToLower(values[0])
	if slices.Contains(g.origins, "*") || slices.Contains(g.origins, o) {
		return true
	}
	u, err := url.Parse(o)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Path == "" && loopback(u.Hostname())
}

func loopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
