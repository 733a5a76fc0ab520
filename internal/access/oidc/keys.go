package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	fetchGap     = 30 * time.Second // from one fetch to the next
	fetchTime    = 10 * time.Second // for all of one
	longestTTL   = 15 * time.Minute // after which keys are fetched again, though the issuer may allow more
	absentFor    = 5 * time.Minute  // how long a key that was not there is not looked for
	maxAbsent    = 128
	maxDocument  = 512 << 10
	maxKeys      = 50
	maxRedirects = 3
)

// A keySet is the keys of one issuer. They are fetched when they are first needed,
// when they are old, and when a token names one that is not there, but never more
// often than once in fetchGap. Those that were fetched last are good for as long as
// the issuer is away. It has one goroutine at a time: a fetch, which ends by itself.
type keySet struct {
	issuer  string
	jwksURI string // "": from the issuer's metadata
	web     *http.Client

	keys atomic.Pointer[fetched]

	mu      sync.Mutex // guards the rest; nothing waits under it
	running chan struct{}
	last    time.Time // when the last fetch began
	failed  error     // of the last fetch; nil if it succeeded
	absent  map[string]time.Time
}

// fetched are the keys of one fetch.
type fetched struct {
	byID  map[string][]jose.JSONWebKey
	all   []jose.JSONWebKey
	until time.Time // they are old from then on
}

// An Unavailable says that the issuer cannot be asked for its keys now.
type Unavailable struct {
	After time.Duration // when that will be tried again
	err   error
}

func (u *Unavailable) Error() string { return "the issuer's keys cannot be had: " + u.err.Error() }
func (u *Unavailable) Unwrap() error { return u.err }

// find is the keys of an id, all of them for "". It waits, within ctx, for a fetch
// that may bring the key.
func (s *keySet) find(ctx context.Context, id string) ([]jose.JSONWebKey, error) {
	if keys := s.keys.Load(); keys != nil {
		if time.Now().After(keys.until) {
			s.fetch("") // for those who come later
		}
		if found := keys.find(id); len(found) > 0 {
			return found, nil
		}
	}
	done := s.fetch(id)
	select {
	case <-done:
	case <-ctx.Done():
		return nil, &Unavailable{fetchTime, ctx.Err()}
	}
	if keys := s.keys.Load(); keys != nil {
		if found := keys.find(id); len(found) > 0 {
			return found, nil
		}
	}
	return nil, s.missing(id)
}

func (f *fetched) find(id string) []jose.JSONWebKey {
	if id == "" {
		return f.all[:min(len(f.all), 4)] // which a client can make us try for nothing
	}
	return f.byID[id]
}

// closed is of a fetch that need not be waited for.
var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// fetch returns a channel that is closed when the fetch is over in which a key may
// come: one that runs, or a new one, if it is time for that.
func (s *keySet) fetch(id string) <-chan struct{} {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.running != nil:
		return s.running
	case !s.last.IsZero() && now.Sub(s.last) < fetchGap:
		return closed
	case id != "" && now.Before(s.absent[id]):
		return closed
	}
	s.last, s.running = now, make(chan struct{})
	go s.run(s.running, id) // ends within fetchTime
	return s.running
}

func (s *keySet) run(done chan struct{}, id string) {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTime)
	defer cancel()
	keys, err := s.get(ctx)
	if err == nil {
		s.keys.Store(keys)
	}
	s.mu.Lock()
	s.failed, s.running = err, nil
	if err == nil && id != "" && len(keys.find(id)) == 0 {
		s.noteAbsentLocked(id)
	}
	s.mu.Unlock()
	close(done)
}

func (s *keySet) noteAbsentLocked(id string) {
	now := time.Now()
	if s.absent == nil {
		s.absent = map[string]time.Time{}
	}
	for old, until := range s.absent {
		if len(s.absent) >= maxAbsent || now.After(until) {
			delete(s.absent, old)
		}
	}
	s.absent[id] = now.Add(absentFor)
}

// missing is why there is no key of an id: because the issuer has none, or because
// it could not be asked.
func (s *keySet) missing(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil || time.Now().Before(s.absent[id]) {
		return errors.New("no key of the issuer has the id that the token names")
	}
	return &Unavailable{max(time.Until(s.last.Add(fetchGap)), time.Second), s.failed}
}

// get fetches the keys, wherever they are.
func (s *keySet) get(ctx context.Context) (*fetched, error) {
	place := s.jwksURI
	if place == "" {
		var err error
		if place, err = s.discover(ctx); err != nil {
			return nil, err
		}
	}
	body, header, err := s.document(ctx, place)
	if err != nil {
		return nil, err
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, fmt.Errorf("%s has no set of keys: %w", place, err)
	}
	f := &fetched{byID: map[string][]jose.JSONWebKey{}, until: time.Now().Add(lifetime(header))}
	for _, raw := range set.Keys[:min(len(set.Keys), maxKeys)] {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(raw) != nil || !key.Valid() || !key.IsPublic() || key.Use != "" && key.Use != "sig" {
			continue // of a kind that we do not know, or for something else
		}
		f.all = append(f.all, key)
		f.byID[key.KeyID] = append(f.byID[key.KeyID], key)
	}
	if len(f.all) == 0 {
		return nil, fmt.Errorf("%s has no key that can be used", place)
	}
	return f, nil
}

// lifetime is how long an answer may be used without asking again.
func lifetime(h http.Header) time.Duration {
	for part := range strings.SplitSeq(h.Get("Cache-Control"), ",") {
		if text, ok := strings.CutPrefix(strings.TrimSpace(part), "max-age="); ok {
			if seconds, err := strconv.Atoi(text); err == nil {
				return min(max(time.Duration(seconds)*time.Second, fetchGap), longestTTL)
			}
		}
	}
	return longestTTL
}

// discover is where the issuer's metadata says that its keys are: RFC 8414, or
// OpenID Connect Discovery.
func (s *keySet) discover(ctx context.Context) (string, error) {
	u, err := url.Parse(s.issuer)
	if err != nil {
		return "", err
	}
	path := strings.TrimRight(u.Path, "/")
	base := u.Scheme + "://" + u.Host
	places := []string{base + "/.well-known/oauth-authorization-server" + path, base + "/.well-known/openid-configuration" + path}
	if path != "" {
		places = append(places, base+path+"/.well-known/openid-configuration")
	}
	for _, place := range places {
		body, _, bad := s.document(ctx, place)
		if bad != nil {
			err = errors.Join(err, bad)
			continue
		}
		var meta struct {
			Issuer  string `json:"issuer"`
			JWKSURI string `json:"jwks_uri"`
		}
		switch bad := json.Unmarshal(body, &meta); {
		case bad != nil:
			err = errors.Join(err, fmt.Errorf("%s: %w", place, bad))
		case meta.Issuer != s.issuer:
			err = errors.Join(err, fmt.Errorf("%s is of the issuer %q, not of %q", place, meta.Issuer, s.issuer))
		case !strings.HasPrefix(meta.JWKSURI, "https://") && !(u.Scheme == "http" && strings.HasPrefix(meta.JWKSURI, "http://")):
			err = errors.Join(err, fmt.Errorf("%s names no jwks_uri that can be trusted", place))
		default:
			return meta.JWKSURI, nil
		}
	}
	return "", err
}

func (s *keySet) document(ctx context.Context, place string) ([]byte, http.Header, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, place, nil)
	if err != nil {
		return nil, nil, err
	}
	r.Header.Set("Accept", "application/json")
	resp, err := s.web.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("%s answers %d", place, resp.StatusCode)
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "text/html" {
		return nil, nil, fmt.Errorf("%s answers a web page", place)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	if err == nil && len(body) > maxDocument {
		err = fmt.Errorf("%s answers more than %d bytes", place, maxDocument)
	}
	return body, resp.Header, err
}

// newClient follows few redirects, and none that gives encryption up.
func newClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	return &http.Client{Transport: transport, Timeout: fetchTime, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects || via[0].URL.Scheme == "https" && r.URL.Scheme != "https" {
			return http.ErrUseLastResponse
		}
		return nil
	}}
}
