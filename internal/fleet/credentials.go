package fleet

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/auth"
	"github.com/everline/everline/internal/slot"
)

// sweepEvery is how often logins are forgotten that no server has used for long.
const sweepEvery = 24 * time.Hour

// readyLimit is a little more than a refresh takes at most.
const readyLimit = 16 * time.Second

// credentials are what servers with a URL are shown: one source for each, which
// all slots of the server share.
type credentials struct {
	*core
	manager *auth.Manager
	live    func(server string) []*sessionSlot // the slots of single sessions; set before anything is logged in to

	mu      sync.Mutex // guards sources; nothing waits under it
	sources map[string]*source
}

type source struct {
	auth.Source
	spec auth.Spec
	last *auth.State // with a token; nil before there was one. Guarded by credentials.mu
}

func newCredentials(c *core) *credentials {
	cs := &credentials{core: c, sources: map[string]*source{}}
	o := auth.Options{
		StateDir: c.opts.CredentialsDir, KeyFile: c.opts.CredentialsKey, Browser: c.opts.Browser, RedirectURI: c.opts.RedirectURI,
		Warn: func(text string) { c.warn("", text) }, Changed: cs.changed,
	}
	if c.opts.Auth != nil {
		c.opts.Auth(&o)
	}
	cs.manager = auth.New(o)
	return cs
}

// Credential is what is configured of a server's credential.
func Credential(s *config.Server) auth.Spec {
	a := &s.Auth
	spec := auth.Spec{
		Server: s.Name, URL: s.URL, Place: s.Origin.String(),
		ClientID: a.ClientID, ClientSecret: a.ClientSecret, ClientSecretFile: a.ClientSecretFile, PrivateKeyFile: a.PrivateKeyFile, SigningAlg: a.SigningAlg,
		Issuer: a.Issuer, MetadataURL: a.MetadataURL, ClientIDURL: a.ClientIDURL, Scopes: a.Scopes, DropScopes: a.DropScopes,
		OldEndpoints: a.OldEndpoints, Resource: a.Resource, ResourceParam: string(a.ResourceParam), RedirectURI: a.RedirectURI, CallbackPort: a.CallbackPort,
		Command: a.Command, Args: a.Args, RefreshAfter: a.RefreshAfter,
		AssertionFile: a.AssertionFile, IDPIssuer: a.IDPIssuer, IDPTokenURL: a.IDPTokenURL, IDPClientID: a.IDPClientID, IDPClientSecret: a.IDPClientSecret,
	}
	spec.Files = tlsFiles(s)
	spec.Kind, _ = auth.ParseKind(string(a.Type)) // config knows no others
	if a.TokenAuth != config.TokenAuthAuto {
		spec.TokenAuth = string(a.TokenAuth)
	}
	if a.AllowPrivate {
		spec.AllowPrivate = &a.AllowPrivate
	}
	for name := range s.Headers {
		spec.Static = spec.Static || http.CanonicalHeaderKey(name) == "Authorization"
	}
	if strings.HasPrefix(s.URL, "unix:") && !spec.Static && spec.Kind == auth.Auto {
		spec.Kind = auth.None // nobody but this machine's own programs answer there
	}
	return spec
}

// use makes the source of a server what its configuration says; nil of a command.
func (cs *credentials) use(s *config.Server) auth.Source {
	if s.URL == "" || s.Err != nil {
		cs.remove(s.Name)
		return nil
	}
	spec := Credential(s)
	cs.mu.Lock()
	old := cs.sources[s.Name]
	cs.mu.Unlock()
	if old != nil && sameCredential(old.spec, spec) {
		return old.Source
	}
	next := &source{Source: cs.manager.Source(spec), spec: spec}
	cs.mu.Lock()
	cs.sources[s.Name] = next
	cs.mu.Unlock()
	return next.Source
}

// sameCredential leaves out where it is written: a line that moves is no reason
// for another source.
func sameCredential(a, b auth.Spec) bool {
	a.Place = b.Place
	return reflect.DeepEqual(a, b)
}

// shown is what the requests of a generation show beside the configured headers;
// nil if that is nothing.
func (cs *credentials) shown(s *config.Server) auth.Source {
	src := cs.use(s)
	if src == nil {
		return nil
	}
	if kind := src.State().Kind; kind == auth.Static || kind == auth.None {
		return nil
	}
	return src
}

func (cs *credentials) remove(name string) {
	cs.mu.Lock()
	old := cs.sources[name]
	delete(cs.sources, name)
	cs.mu.Unlock()
	if old != nil {
		cs.manager.Remove(name)
	}
}

// State is how the credential of a server is; nil of a command.
func (cs *credentials) state(name string) *auth.State {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if s := cs.sources[name]; s != nil {
		return s.State()
	}
	return nil
}

// standing says what can help where a server refuses its credential.
func (cs *credentials) standing(name string) slot.Credential {
	st := cs.state(name)
	switch {
	case st == nil, st.Kind == auth.None, st.Kind == auth.Static, st.Kind == auth.Command:
		return slot.Foreign
	case st.Dead:
		return slot.Dead
	default:
		return slot.Living
	}
}

// changed hears of each new state, and has the slot of a server know of another
// token. It is called by whoever has changed the state, and does not wait.
func (cs *credentials) changed(name string) {
	cs.mu.Lock()
	s := cs.sources[name]
	if s == nil {
		cs.mu.Unlock()
		return
	}
	now, last := s.State(), s.last
	if now.Phase != auth.OK || last != nil && now.Serial == last.Serial {
		cs.mu.Unlock()
		return
	}
	s.last = now
	cs.mu.Unlock()
	another := last != nil && (last.Subject != now.Subject || !slices.Equal(last.Scopes, now.Scopes))
	cs.spawn(func() {
		ctx, cancel := context.WithTimeout(cs.ctx, closeLimit)
		defer cancel()
		cs.tell(ctx, name, another)
	})
}

// tell has the slots of a server know that there is another token.
func (cs *credentials) tell(ctx context.Context, name string, another bool) {
	r := cs.roster.Load()
	if r == nil {
		return // the servers are about to start
	}
	var slots []*slot.Slot
	if s := r.slot(name); s != nil {
		slots = append(slots, s)
	}
	for _, m := range cs.live(name) {
		slots = append(slots, m.slot)
	}
	for _, s := range slots {
		_ = s.Authorized(ctx, another) // one that is closing needs no token
	}
}

// ready waits for the refresh of a server's token, so that no start spends its
// time on that.
func (cs *credentials) ready(ctx context.Context, s config.Server) error {
	src := cs.shown(&s)
	if src == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	if _, f := src.Header(ctx); f != nil {
		return f
	}
	return nil
}

// run forgets, now and then, logins that no server has used for long.
func (cs *credentials) run() {
	every := time.NewTicker(sweepEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			if cs.manager.KeyPlace(cs.ctx) != "" { // there is something
				cs.manager.Sweep(cs.ctx)
			}
		case <-cs.stop:
			return
		}
	}
}
