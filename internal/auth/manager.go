package auth

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/everline/everline/fault"
)

// Options are what a program decides. The zero value keeps everything in memory
// and opens nothing.
type Options struct {
	StateDir string // where credentials are kept; "": in memory
	KeyFile  string // with the key of the store; "": see section Credentials of the reference
	// NoKeyring never asks the operating system's keyring.
	NoKeyring bool
	// Browser opens a URL for a person, who has asked for it or not. nil: nothing
	// is ever opened, and URLs are only told.
	Browser func(ctx context.Context, url string) error
	// RedirectURI is where Handler is reached by browsers; nil, or "": a login
	// listens on a port of its own.
	RedirectURI func() string
	// Warn takes what should be in the log; nil: nobody reads it.
	Warn func(text string)
	// Changed is told of the server whenever the state of its credential is another
	// one; it must not wait. nil: nobody is.
	Changed func(server string)
	// Dial and Resolve replace the network; nil: the system's.
	Dial    Dialer
	Resolve Resolver

	noWatch bool                 // tests in a bubble cannot wait for files
	keyring func() secretService // of tests
}

// A Manager owns every credential toward servers. Its long-lived goroutine is
// the one that watches the store; refreshes, searches and logins have one each
// while they run. Close waits for all of them.
type Manager struct {
	o       Options
	store   *store
	secrets secrets
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc

	ending  sync.Mutex // guards closed, and that running grows before that alone; the last of all
	closed  bool
	running sync.WaitGroup

	watched atomic.Bool // what is stored is known without a look at the file

	// mu guards the rest, and is held for moments. It comes before
	// credential.mu.
	mu          sync.Mutex
	watching    bool
	sources     map[string]*source
	credentials map[string]*credential   // by id of their key
	logins      map[string]*Login        // running, by id of the key
	pending     map[string]*flow         // by state
	held        map[string]chan struct{} // locks of hold where there is no folder

	serial atomic.Uint64 // of tokens that are not stored
}

// New returns a manager. It touches no file and no keyring: that is done when
// the first credential is needed.
func New(o Options) *Manager {
	m := &Manager{
		o: o, sources: map[string]*source{}, credentials: map[string]*credential{}, logins: map[string]*Login{}, pending: map[string]*flow{}, held: map[string]chan struct{}{},
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	ring := o.keyring
	if ring == nil && !o.NoKeyring {
		ring = reachableKeyring
	}
	m.store = newStore(o.StateDir, &keys{dir: o.StateDir, given: o.KeyFile, ring: ring}, m.warn)
	return m
}

func (m *Manager) warn(text string) {
	if m.o.Warn != nil {
		m.o.Warn(m.secrets.Hide(text))
	}
}

// Hide replaces every token, code, verifier and secret that was ever seen. It is
// for logs, errors and whatever else leaves the program, beside the hider of the
// configuration.
func (m *Manager) Hide(text string) string { return m.secrets.Hide(text) }

// Close ends logins, and refreshes that take longer than closeGrace, and waits for
// them. It is idempotent.
func (m *Manager) Close() {
	m.ending.Lock()
	m.closed = true
	m.ending.Unlock()
	m.mu.Lock()
	for _, c := range m.credentials {
		c.close()
	}
	m.mu.Unlock()
	m.cancel()
	m.running.Wait()
}

// spawn runs what Close waits for; false if that has begun.
func (m *Manager) spawn(work func()) bool {
	m.ending.Lock()
	defer m.ending.Unlock()
	if m.closed {
		return false
	}
	m.running.Go(work)
	return true
}

// Source returns the credentials of a server, in place of those that its name
// had before. A spec that cannot work is told by the source's state and faults.
func (m *Manager) Source(spec Spec) Source {
	s := m.make(spec)
	m.mu.Lock()
	old := m.sources[spec.Server]
	m.sources[spec.Server] = s
	if s.provider != nil {
		m.sources[spec.Server+providerMark] = s.provider
	} else {
		delete(m.sources, spec.Server+providerMark)
	}
	m.mu.Unlock()
	if old != nil {
		m.drop(old)
	}
	if s.kind.stored() && m.store.exists() {
		m.watch()
	}
	if s.kind == Command && s.broken == nil {
		m.attach(s, key{Resource: spec.URL, Principal: "command:" + spec.Server}, nil)
	}
	m.publishSource(s)
	return s
}

// providerMark ends the name under which a server's identity provider is kept:
// no server can have it.
const providerMark = "\x00provider"

func (m *Manager) make(spec Spec) *source {
	plain, user := withoutUser(spec.URL)
	spec.URL, spec.Static = plain, spec.Static || user // the transport makes a header of it
	s := &source{m: m, spec: spec, kind: spec.kind()}
	s.spec.Scopes, s.spec.DropScopes = slices.Clone(spec.Scopes), slices.Clone(spec.DropScopes)
	m.secrets.learn(spec.ClientSecret, spec.IDPClientSecret)
	s.broken = s.name(s.check())
	if s.broken == nil && s.kind != None && s.kind != Static {
		web, err := newWeb(&s.spec, m.o.Dial, m.o.Resolve, m.warn)
		if err != nil {
			s.broken = s.name(notSent(fault.Invalid, err, s.spec.atPlace("url")))
		}
		s.web = web
	}
	if idp, ok := s.spec.atProvider(); ok && s.broken == nil {
		s.provider = m.make(idp)
		s.provider.client = s
	}
	s.current.Store(State{Kind: s.kind, Since: time.Now().Round(0)}.open())
	return s
}

// check says what can never work, in the words of the configuration.
func (s *source) check() *fault.Fault {
	spec, text := &s.spec, ""
	switch {
	case spec.Static && spec.Kind != Auto && spec.Kind != None:
		text = `a header "Authorization" and "auth" exclude each other`
	case spec.ClientSecret != "" && spec.ClientSecretFile != "":
		text = "clientSecret and clientSecretFile exclude each other"
	case spec.Kind == Command && spec.Command == "":
		text = `"auth" of the type command needs "command"`
	case spec.Kind == ClientCredentials && (spec.ClientID == "" || spec.ClientSecret == "" && spec.ClientSecretFile == "" && spec.PrivateKeyFile == ""):
		text = `"auth" of the type client_credentials needs "clientId", and "clientSecret" or "privateKeyFile"`
	case spec.Kind == Enterprise && spec.IDPIssuer == "" && spec.IDPTokenURL == "":
		text = `"auth" of the type enterprise needs the identity provider`
	case (spec.Kind == Enterprise && (spec.IDPIssuer == "" || spec.IDPClientID == "") || spec.Kind == Workload) && spec.Command == "" && spec.AssertionFile == "":
		text = `"auth" of the type ` + spec.Kind.String() + ` needs a file or a command with the token to present`
	case !slices.Contains([]string{"", "basic", "post", "none", "private_key_jwt"}, spec.TokenAuth):
		text = "tokenAuth must be basic, post, none or private_key_jwt"
	case !slices.Contains([]string{"", "auto", "always", "never"}, spec.ResourceParam):
		text = "resourceParam must be auto, always or never"
	default:
		return nil
	}
	return notSent(fault.Invalid, errors.New(text), spec.atPlace("auth"))
}

// Remove ends the use of a server's credential. What is stored stays.
func (m *Manager) Remove(server string) {
	m.mu.Lock()
	s := m.sources[server]
	delete(m.sources, server)
	delete(m.sources, server+providerMark)
	m.mu.Unlock()
	if s != nil {
		m.drop(s)
	}
}

// drop lets go of a source's credentials.
func (m *Manager) drop(s *source) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.releaseLocked(s.cred.Swap(nil))
	if s.provider != nil {
		m.releaseLocked(s.provider.cred.Swap(nil))
	}
}

// releaseLocked ends a credential that no server uses any more.
func (m *Manager) releaseLocked(c *credential) {
	if c == nil {
		return
	}
	for _, other := range m.sources {
		if other.cred.Load() == c {
			c.mu.Lock()
			c.owner = other
			c.mu.Unlock()
			return
		}
	}
	delete(m.credentials, c.key.id())
	c.close()
}

// attach makes a credential a source's.
func (m *Manager) attach(s *source, k key, rec *record) *credential {
	m.mu.Lock()
	c := m.credentials[k.id()]
	fresh := c == nil
	if fresh {
		c = &credential{m: m, key: k}
		m.credentials[k.id()] = c
	}
	c.mu.Lock()
	c.owner = s
	c.mu.Unlock()
	if rec != nil {
		c.set(rec)
	}
	old := s.cred.Swap(c)
	if old != c {
		m.releaseLocked(old)
	}
	m.mu.Unlock()
	if old != c {
		s.mu.Lock()
		s.away = nil
		s.mu.Unlock()
		m.publishSource(s)
	}
	if fresh && rec != nil && m.cutOff(k) {
		_, _ = c.renewal(true) // why there is none is in the state
	}
	return c
}

func (m *Manager) source(server string) (*source, *fault.Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.sources[server]; s != nil {
		return s, nil
	}
	f := notSent(fault.NotFound, errors.New("no server with that name is reached by a URL"), "run: everline auth status")
	f.Server = server
	return nil, f
}

// publish makes the state of a credential known to every server that uses it.
func (m *Manager) publish(c *credential) {
	for _, s := range m.all() {
		if s.cred.Load() == c {
			m.publishSource(s)
		}
	}
}

func (m *Manager) all() []*source {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]*source, 0, len(m.sources))
	for _, s := range m.sources {
		all = append(all, s)
	}
	return all
}

// publishSource swaps the state, and ends the one before.
func (m *Manager) publishSource(s *source) {
	for {
		old, next := s.current.Load(), s.describe()
		if next.same(old) {
			return
		}
		next.Since = time.Now().Round(0)
		if next.Phase == old.Phase {
			next.Since = old.Since
		}
		if s.current.CompareAndSwap(old, next.open()) {
			close(old.changed)
			if m.o.Changed != nil {
				m.o.Changed(s.spec.Server)
			}
			break
		}
	}
	if s.client != nil { // whose state depends on this one
		if c := s.client.cred.Load(); c != nil && s.State().Phase == OK {
			c.retry()
		}
		m.publishSource(s.client)
	}
}

// ask remembers scopes that were wanted, for this login and for those to come.
func (m *Manager) ask(ctx context.Context, k key, scopes []string) {
	d, f := m.store.read(ctx)
	if f != nil || len(union(d.Asked[k.id()], scopes)) == len(d.Asked[k.id()]) {
		return
	}
	_, f = m.store.update(ctx, func(d *data) error {
		d.Asked[k.id()] = union(d.Asked[k.id()], scopes)
		return nil
	})
	if f != nil {
		m.warn("the store cannot be written: " + f.Reason())
	}
}

// watch looks at the store for what other processes do: a login by the command
// line wakes the server here.
func (m *Manager) watch() {
	m.mu.Lock()
	again := m.watching || m.o.noWatch || m.o.StateDir == ""
	m.watching = true
	m.mu.Unlock()
	if again {
		return
	}
	m.spawn(func() {
		if err := m.watchFolder(); err != nil {
			m.warn("logins by other processes are noticed late: " + err.Error())
		}
	})
}

func (m *Manager) watchFolder() error {
	if err := os.MkdirAll(m.o.StateDir, 0o700); err != nil {
		return err
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }() // nothing is to be written
	if err := w.Add(m.o.StateDir); err != nil {
		return err
	}
	m.Reload(m.ctx)
	m.watched.Store(true)
	defer m.watched.Store(false)
	for {
		select {
		case e, ok := <-w.Events:
			if !ok {
				return errors.New("the folder is not watched any more")
			}
			if filepath.Base(e.Name) == storeFile && !e.Has(fsnotify.Chmod) {
				m.Reload(m.ctx)
			}
		case err := <-w.Errors: // some events are lost: look
			m.warn("watching the credentials: " + err.Error())
			m.Reload(m.ctx)
		case <-m.ctx.Done():
			return nil
		}
	}
}

// Reload takes over what other processes have stored. It is done by itself where
// the folder can be watched.
func (m *Manager) Reload(ctx context.Context) {
	d, f := m.store.read(ctx)
	for _, s := range m.all() {
		if !s.kind.stored() || s.broken != nil {
			continue
		}
		if s.lock(f); f != nil {
			continue
		}
		c := s.cred.Load()
		k, known := d.Bindings[s.spec.place()]
		switch {
		case known && (c == nil || c.key != k):
			if c != nil && d.record(k) == nil {
				break
			}
			s.bindFrom(d)
		case c != nil:
			m.follow(c, d)
		}
	}
}

// follow takes over what is stored of one credential; nothing means that
// somebody has logged out.
func (m *Manager) follow(c *credential, d *data) {
	c.mu.Lock()
	lost := c.rec != nil && c.rec.Serial <= d.Serial && d.record(c.key) == nil && c.flight == nil
	c.mu.Unlock()
	if rec := d.record(c.key); rec != nil || lost {
		c.set(rec)
		m.publish(c)
	}
}

// Status returns the state of every server, by name.
func (m *Manager) Status() map[string]*State {
	all := map[string]*State{}
	for _, s := range m.all() {
		if !s.spec.provider {
			all[s.spec.Server] = s.State()
		}
	}
	return all
}

// KeyPlace says where the key of the store is; "" before there is one.
func (m *Manager) KeyPlace(ctx context.Context) string { return m.store.keyPlace(ctx) }

// Rekey encrypts everything anew with a new key. discard moves aside what is
// locked by a key that is not to be had; else that is an error.
func (m *Manager) Rekey(ctx context.Context, discard bool) error {
	if f := m.store.rekey(ctx, discard); f != nil {
		return f
	}
	return nil
}

// An Explanation is how a server says that it is logged in to.
type Explanation struct {
	Steps []Step // the last one decided
	// The rest is valid where the search has succeeded.
	Issuer, Resource string
	Registers        bool // a login needs no client that somebody has registered
	Device           bool // the issuer knows device codes
}

// Explain searches for the way to log in to a server, and tells each step, also
// of a search that fails. There are none where nobody logs in.
func (m *Manager) Explain(ctx context.Context, server string) (Explanation, error) {
	s, f := m.source(server)
	if f != nil {
		return Explanation{}, f
	}
	if s.broken != nil {
		return Explanation{}, s.broken
	}
	if s.web == nil || s.kind == Command { // there is nothing to find out
		return Explanation{}, nil
	}
	s.afresh(0)
	found, f := s.discover(ctx)
	s.mu.Lock()
	e := Explanation{Steps: slices.Clone(s.steps)}
	s.mu.Unlock()
	if f != nil {
		return e, s.name(f)
	}
	meta := &found.meta
	e.Issuer, e.Resource, e.Device = meta.Issuer, found.resource, meta.DeviceEndpoint != ""
	e.Registers = s.spec.ClientID != "" || meta.RegistrationEndpoint != "" || meta.ClientIDMetadataDocumentSupported && s.spec.ClientIDURL != ""
	return e, nil
}

// Handler serves the redirect URI of logins.
func (m *Manager) Handler() http.Handler { return http.HandlerFunc(m.callback) }
