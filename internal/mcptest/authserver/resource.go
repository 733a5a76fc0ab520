package authserver

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// A Resource is a server behind an authorization server: each request needs a
// token, and the answer is "ok", or what SetBehind says.
type Resource struct {
	URL string

	mu      sync.Mutex // guards the rest
	servers []*Server
	// PRM is its metadata by path; the zero value serves one that is right.
	prm       map[string]any
	challenge string
	open      func(r *http.Request) bool
	refuse    func(r *http.Request) (status int, challenge string)
	behind    http.Handler
	ok, no    int
}

// NewResource returns a server at a URL, guarded by others.
func NewResource(url string, servers ...*Server) *Resource {
	return &Resource{URL: url, servers: servers}
}

// SetPRM replaces the metadata at each path: a string is served as HTML, an int
// is a status, anything else is JSON. Other paths have none.
func (s *Resource) SetPRM(byPath map[string]any) {
	s.mu.Lock()
	s.prm = byPath
	s.mu.Unlock()
}

// SetChallenge replaces the WWW-Authenticate field; "-" leaves it out.
func (s *Resource) SetChallenge(field string) {
	s.mu.Lock()
	s.challenge = field
	s.mu.Unlock()
}

// SetOpen says which requests need no token.
func (s *Resource) SetOpen(open func(r *http.Request) bool) {
	s.mu.Lock()
	s.open = open
	s.mu.Unlock()
}

// SetRefuse refuses requests in spite of a good token; status 0 lets one pass.
func (s *Resource) SetRefuse(refuse func(r *http.Request) (status int, challenge string)) {
	s.mu.Lock()
	s.refuse = refuse
	s.mu.Unlock()
}

// SetBehind has what is let in served by h.
func (s *Resource) SetBehind(h http.Handler) {
	s.mu.Lock()
	s.behind = h
	s.mu.Unlock()
}

// SetServers replaces the authorization servers.
func (s *Resource) SetServers(servers ...*Server) {
	s.mu.Lock()
	s.servers = servers
	s.mu.Unlock()
}

// Counts are the requests that were let in and those that were refused.
func (s *Resource) Counts() (ok, refused int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ok, s.no
}

func (s *Resource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	servers, prm, challenge, open, refuse, behind := s.servers, s.prm, s.challenge, s.open, s.refuse, s.behind
	s.mu.Unlock()
	if strings.HasPrefix(r.URL.Path, "/.well-known/oauth-protected-resource") {
		s.metadata(w, r, servers, prm)
		return
	}
	u, _ := url.Parse(s.URL)
	if r.URL.Path != u.Path {
		http.NotFound(w, r)
		return
	}
	token := r.Header.Get("Authorization")
	status := http.StatusUnauthorized
	for _, one := range servers {
		if one.Accepts(token, s.URL, "") {
			status = 0
		}
	}
	if open != nil && open(r) {
		status = 0
	}
	if status == 0 && refuse != nil {
		var other string
		if status, other = refuse(r); status != 0 {
			challenge = other
		}
	}
	s.mu.Lock()
	if status == 0 {
		s.ok++
	} else {
		s.no++
	}
	s.mu.Unlock()
	if status == 0 && behind != nil {
		behind.ServeHTTP(w, r)
		return
	}
	if status == 0 {
		_, _ = w.Write([]byte("ok"))
		return
	}
	if challenge == "" {
		challenge = `Bearer resource_metadata="` + u.Scheme + "://" + u.Host + "/.well-known/oauth-protected-resource" + u.Path + `"`
	}
	if challenge != "-" {
		w.Header().Set("WWW-Authenticate", challenge)
	}
	w.WriteHeader(status)
}

func (s *Resource) metadata(w http.ResponseWriter, r *http.Request, servers []*Server, prm map[string]any) {
	if prm == nil {
		var issuers []string
		for _, one := range servers {
			issuers = append(issuers, one.Issuer)
		}
		answer(w, http.StatusOK, map[string]any{"resource": s.URL, "authorization_servers": issuers})
		return
	}
	switch v := prm[r.URL.Path].(type) {
	case nil:
		http.NotFound(w, r)
	case int:
		w.WriteHeader(v)
	case string:
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(v))
	default:
		answer(w, http.StatusOK, v)
	}
}

// Start puts a server and its resource on a network.
func Start(n *Net, ip string, resources []*Resource, servers ...*Server) {
	for _, s := range servers {
		u, _ := url.Parse(s.Issuer)
		n.Serve(hostOf(u.Scheme, u.Host), ip, s)
	}
	for _, s := range resources {
		u, _ := url.Parse(s.URL)
		n.Serve(hostOf(u.Scheme, u.Host), ip, s)
	}
}
