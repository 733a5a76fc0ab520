package config

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"hash/fnv"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/conf/redact"
	"github.com/everline/everline/internal/conf/tree"
)

// Revision identifies what a running generation depends on: how the server is
// reached, and with which command, environment, URL and headers. Two servers
// with the same revision can share a generation; every other setting applies
// without a restart. Where the text stands and how it is ordered is left out.
func (s Server) Revision() uint64 {
	h := fnv.New64a()
	s.hashGeneration(h)
	return h.Sum64()
}

// hashGeneration writes what a running generation depends on. A server that cannot
// run is told from the same one that can, so that fixing a variable restarts it.
func (s Server) hashGeneration(h hash.Hash) {
	hashStrings(h, string(s.Transport), s.Command, s.Cwd, s.URL, s.MessageURL)
	hashStrings(h, s.Args...)
	hashMap(h, s.Env)
	hashMap(h, s.Headers)
	if s.Eras == ErasModern || s.Eras == ErasLegacy { // the others differ in what runs beside it
		hashStrings(h, string(s.Eras))
	}
	if s.Auth.isSet() {
		hashStrings(h, fmt.Sprintf("%#v", s.Auth.normal()))
	}
	if s.TLS != (ServerTLS{}) {
		hashStrings(h, "tls", s.TLS.CAFile, s.TLS.CertFile, s.TLS.KeyFile, s.TLS.ServerName)
	}
	if s.Sandbox != nil {
		hashStrings(h, fmt.Sprintf("%+v", *s.Sandbox))
	}
	if s.NewPrivileges {
		hashStrings(h, "privileges")
	}
	if s.Limits != (Limits{}) {
		hashStrings(h, fmt.Sprint(s.Limits))
	}
	if s.Err != nil {
		hashStrings(h, "misconfigured")
	}
}

// hashStrings writes a list so that no other list gives the same bytes.
func hashStrings(h hash.Hash, list ...string) {
	var n [8]byte
	write := func(size int) {
		binary.LittleEndian.PutUint64(n[:], uint64(size))
		h.Write(n[:])
	}
	write(len(list))
	for _, s := range list {
		write(len(s))
		h.Write([]byte(s))
	}
}

// hashMap writes a map, in the order of its keys.
func hashMap(h hash.Hash, m map[string]string) {
	keys := slices.Sorted(maps.Keys(m))
	hashStrings(h, keys...)
	for _, k := range keys {
		hashStrings(h, m[k])
	}
}

// Identity is a file-name-safe key for what is kept on disk about the server:
// it stays the same while the server is the same one to its user (name,
// command, arguments, URL), whatever its environment, headers and settings.
func (s Server) Identity() string {
	h := sha256.New()
	hashStrings(h, s.Name, s.Command, s.URL)
	hashStrings(h, s.Args...)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Equal tells whether the two mean the same, wherever they are written.
func (s Server) Equal(o Server) bool {
	if (s.Err == nil) != (o.Err == nil) || s.Err != nil && s.Err.Reason() != o.Err.Reason() {
		return false
	}
	return reflect.DeepEqual(s.normal(), o.normal())
}

// normal returns a copy in which empty and absent are the same, without what
// does not change the meaning.
func (s Server) normal() Server {
	s.Origin, s.Err, s.secrets, s.Auth = Origin{}, nil, nil, s.Auth.normal()
	for _, list := range []*[]string{&s.Args, &s.Tools.Allow, &s.Tools.Deny, &s.Tools.Hide} {
		if len(*list) == 0 {
			*list = nil
		}
	}
	for _, m := range []*map[string]string{&s.Env, &s.Headers, &s.Tools.Rename} {
		if len(*m) == 0 {
			*m = nil
		}
	}
	if len(s.Tools.Replay) == 0 {
		s.Tools.Replay = nil
	}
	return s
}

// Redacted returns a copy that can be shown: environment and header values,
// interpolated values, passwords and tokens in arguments, and credentials in
// the URL and the values of its query are replaced by "***".
func (s Server) Redacted() Server {
	hide := s.Hider() // people write the same value into env and args
	known := slices.Clone(s.secrets)
	shown := func(text string) string {
		text = hide(text)
		for _, v := range known {
			if v != "" {
				text = strings.ReplaceAll(text, v, redact.Hidden)
			}
		}
		return redact.Queries(text)
	}
	args := slices.Clone(s.Args)
	for i, arg := range args {
		if v, ok := redact.Arg(s.Args, i); ok {
			arg = strings.TrimSuffix(arg, v) + redact.Hidden
		}
		args[i] = shown(arg)
	}
	s.Args = args
	s.Env, s.Headers = hideValues(s.Env), hideValues(s.Headers)
	s.Command, s.Cwd, s.URL, s.MessageURL = shown(s.Command), shown(s.Cwd), redact.URL(shown(s.URL)), redact.URL(shown(s.MessageURL))
	a := &s.Auth
	a.Args = slices.Clone(a.Args)
	for i := range a.Args {
		a.Args[i] = shown(a.Args[i])
	}
	for _, text := range []*string{
		&a.Command, &a.ClientID, &a.Issuer, &a.MetadataURL, &a.ClientIDURL, &a.Resource, &a.RedirectURI, &a.ClientSecretFile, &a.PrivateKeyFile, &a.AssertionFile, &a.IDPIssuer, &a.IDPTokenURL, &a.IDPClientID,
		&s.TLS.CAFile, &s.TLS.CertFile, &s.TLS.KeyFile, &s.TLS.ServerName,
	} {
		*text = shown(*text)
	}
	for _, secret := range []*string{&a.ClientSecret, &a.IDPClientSecret} {
		if *secret != "" {
			*secret = redact.Hidden
		}
	}
	s.secrets = nil
	return s
}

func hideValues(m map[string]string) map[string]string {
	if m == nil {
		return nil
	}
	hidden := make(map[string]string, len(m))
	for k := range m {
		hidden[k] = redact.Hidden
	}
	return hidden
}

// Redacted returns a copy whose servers can be shown.
func (c *Config) Redacted() *Config {
	r := *c
	r.Servers = make([]Server, len(c.Servers))
	for i, s := range c.Servers {
		r.Servers[i] = s.Redacted()
	}
	return &r
}

// Server returns the server of this name.
func (c *Config) Server(name string) (Server, bool) {
	for _, s := range c.Servers {
		if s.Name == name {
			return s, true
		}
	}
	return Server{}, false
}

// Diff compares two configs by meaning: a server that was only moved,
// reordered or commented is kept. A nil config has no servers.
func Diff(old, next *Config) Plan {
	if old == nil {
		old = &Config{}
	}
	if next == nil {
		next = &Config{}
	}
	before := make(map[string]Server, len(old.Servers))
	for _, s := range old.Servers {
		before[s.Name] = s
	}
	var p Plan
	for _, s := range next.Servers {
		was, known := before[s.Name]
		delete(before, s.Name)
		switch {
		case !known:
			p.Add = append(p.Add, s.Name)
		case was.Equal(s):
			p.Keep = append(p.Keep, s.Name)
		default:
			p.Change = append(p.Change, s.Name)
		}
	}
	for _, s := range old.Servers {
		if _, gone := before[s.Name]; gone {
			p.Remove = append(p.Remove, s.Name)
		}
	}
	return p
}

// Breaks is why next must not take old's place: a server that is usable as it
// is configured now would not be any more. It is nil if there is none; a new
// server that is unusable costs only itself.
func Breaks(old, next *Config) *fault.Fault {
	for _, s := range next.Servers {
		if was, ok := old.Server(s.Name); ok && was.Err == nil && s.Err != nil && !s.Disabled {
			return &fault.Fault{
				Kind: fault.Invalid, Op: tree.OpRead, Server: s.Name, Outcome: fault.NotSent,
				Err: fmt.Errorf("%w; as configured before it is usable, and it stays so", s.Err.Cause()), Remedy: s.Err.Remedy,
			}
		}
	}
	return nil
}

// Hider returns a function that replaces every secret value of every server,
// in whatever form, by "***". It may be called by several goroutines at a time.
func (c *Config) Hider() func(text string) string {
	all := redact.Findings{}
	var urls []string
	for _, s := range c.Servers {
		for v, sure := range s.findings() {
			all.Add(v, sure)
		}
		urls = append(urls, s.urls()...)
	}
	return all.Hider(urls)
}

// Hider is Config.Hider for the secrets of one server.
func (s Server) Hider() func(text string) string { return s.findings().Hider(s.urls()) }
