// Package config turns configuration text into a checked Config and the
// difference of two Configs into a Plan. It starts nothing and keeps nothing:
// everything in it is a value.
package config

import (
	"cmp"
	"crypto/sha256"
	"path/filepath"
	"reflect"
	"strconv"
	"time"

	"github.com/everline/everline/fault"
)

// A Config is everything that configuration says. It is not changed after Load.
type Config struct {
	Servers []Server // in the order of the files
	Listen  string   // address of the endpoint; "127.0.0.1:7433" by default
	Clients Clients  // which users of this machine it serves; "same-user"

	ListenUnix      string          // path of a further endpoint for this machine; "": none
	PublicURL       string          // under which clients reach the endpoint, without a slash at the end; "": that of Listen
	TLS             TLS             // of Listen
	TLSTerminatedBy TLSTerminatedBy // who else encrypts what others can hear; "nobody"
	Access          Access          // who may come in

	Warnings []Warning

	FirstListWait time.Duration // how long the very first list waits; 500 ms
	Naming        Naming        // whether the names of one server alone begin with its name, too
	Separator     string        // between server and tool in exposed names; "__"
	MaxName       int           // longest exposed name; 64
	DrainTimeout  time.Duration // how long a stop waits for calls; 10 s
	MaxStarting   int           // processes that may be starting at the same time; 8

	Outage           Outage        // what becomes of the items of a server that is away: "keep" (listed, with a mark) or "hide"
	HideAfter        time.Duration // with Outage "hide": how long a server must be away before its items are not listed; 5 min
	Pins             Pins          // approved definitions: "off", "warn" or "enforce"
	PinsFile         string        // where they are kept; set where Pins is not "off"
	Expose           Expose        // what /mcp lists of the tools: "all", or "search" for two tools that find and call the others
	Metrics          bool          // whether the endpoint serves /metrics; true
	MetricsListen    string        // an address of its own for them; "": none
	MetricsPerTool   bool          // whether calls are counted by tool as well
	MetricsPerServer PerServer     // the histograms of single servers: "auto", "on" or "off"
	MetricsTokenFile string        // holds what who scrapes must send as bearer token; "": only this machine reaches them at the endpoint

	Page Page // who may look at the web page: "open", "token" or "off"

	Groups []Group // further endpoints, /mcp/<name>, by name

	// What clients may do. Where both are nil, everybody may do everything.
	Policies []Policy // by name
	Grants   []Grant  // who has which

	Audit Audit // the record of who did what

	sides []SideFile
}

// A Group is an endpoint of its own for some of the servers.
type Group struct {
	Name    string
	Servers []string // in the order of the file; names that no server has are warned of
	Expose  Expose   // like Config.Expose
}

// Audit says what is recorded of what is done through everline, and how.
type Audit struct {
	Level     AuditLevel     // "off"; "admin": what is done to everline, and calls whose outcome is unknown; "calls": each call and refusal as well
	Path      string         // the folder of the files; "": audit in the state folder; "-": standard error
	Strict    bool           // whether what cannot be recorded is refused
	Chain     bool           // whether each line has the hash of the line before; true
	Arguments AuditArguments // what is kept of the arguments of calls: their "names", "none", a "hash", or the "full" text
	MaxFile   int64          // bytes after which the next file is begun; 64 MiB
	MaxTotal  int64          // bytes of all files; the oldest are deleted; 1 GiB
	KeepFor   time.Duration  // how long a file is kept; 30 days
}

// AuditStderr is the Audit.Path that has records go to standard error.
const AuditStderr = "-"

// Group returns the group of this name.
func (c *Config) Group(name string) (Group, bool) {
	for _, g := range c.Groups {
		if g.Name == name {
			return g, true
		}
	}
	return Group{}, false
}

// Origin is where something was configured.
type Origin struct {
	File string
	Line int
}

// A Warning is something in a file that does not stop it from being used.
type Warning struct {
	Origin
	Server string // "" if it is about no server
	Text   string
}

// A Server is one configured MCP server, defaults filled in.
type Server struct {
	Name   string
	Origin Origin

	Transport Transport // TransportAuto for a URL whose transport is to be found out
	Command   string
	Args      []string
	Env       map[string]string
	EnvFile   string // the path of a file of further variables, where references are Kept; they are in Env else
	Cwd       string
	URL       string
	Headers   map[string]string

	// MessageURL overrides where an HTTP+SSE server says that messages go,
	// absolute or relative to URL; "": where it says.
	MessageURL string

	Disabled bool // not started until enabled
	Lazy     bool // started by the first call
	Required bool // /readyz says no without it, and it decides how status --check exits
	Overlap  bool // a successor starts before the old generation ends; default true for a URL, false for stdio

	StartupTimeout  time.Duration // open, handshake and first listing; 60 s
	CallTimeout     time.Duration // hard cap of one call; 10 min
	ParkFor         time.Duration // how long a call may wait for a server that is away; 30 s
	DrainTimeout    time.Duration // how long a replaced generation may finish its calls; 10 s
	IdleTimeout     time.Duration // a lazy server is stopped after so long without a call; 0: never
	RefreshInterval time.Duration // how often catalogs are listed again; 5 min; 0: never
	KeepResults     time.Duration // how long outcomes are kept for clients that lost their connection; 0: not at all
	PingAfter       time.Duration // silence on a call after which the server is pinged; 30 s
	StreamIdle      time.Duration // a standing event stream is opened anew after so long without a byte; 0: never
	StopGrace       time.Duration // from SIGTERM to SIGKILL; 1.5 s

	PingMisses    int   // pings in a row without an answer that mean wedged; 3
	MaxConcurrent int   // calls at a time; 0: no limit
	MaxWaiting    int   // calls that may wait; 1024
	MaxMessage    int64 // bytes of one message; 64 MiB

	Eras        Eras          // "auto": modern where it speaks both, and legacy beside for clients that need it; "modern", "legacy", "both"
	Isolation   Isolation     // "shared": one generation for all clients; "session": one for each client's session
	MaxSessions int           // generations for single clients at a time; 64
	SessionIdle time.Duration // and how long one is kept without a call; 30 min; 0: until its session ends

	Auth   Auth      // what a server at a URL is shown, beside Headers
	TLS    ServerTLS // of a server at an https URL
	Limits Limits    // of its processes

	Sandbox       *Sandbox // what its processes may do; nil: all that the user may
	NewPrivileges bool     // its processes may gain some by what they start, as sudo does; Linux keeps them from it else

	Replay Replay // may a call whose outcome is unknown be sent again
	Retry  Retry
	Tools  Tools

	// Err is why this server cannot run as configured (an unset variable, a
	// missing URL), with file and line. The other servers run.
	Err *fault.Fault

	secrets []string // values that interpolation put into command, args, cwd or url
}

// New returns a Config without servers and with every default.
func New() *Config {
	return &Config{
		Listen:           "127.0.0.1:7433",
		FirstListWait:    500 * time.Millisecond,
		Naming:           NamingAuto,
		Clients:          ClientsSameUser,
		Page:             PageOpen,
		TLSTerminatedBy:  TLSByNobody,
		Separator:        "__",
		MaxName:          64,
		DrainTimeout:     10 * time.Second,
		MaxStarting:      8,
		Outage:           OutageKeep,
		HideAfter:        5 * time.Minute,
		Pins:             PinsOff,
		Expose:           ExposeAll,
		Metrics:          true,
		MetricsPerServer: PerServerAuto,
		Audit: Audit{
			Level: AuditAdmin, Chain: true, Arguments: AuditNames, MaxFile: 64 << 20, MaxTotal: 1 << 30, KeepFor: 30 * 24 * time.Hour,
		},
	}
}

// NewServer returns a server of this name with every default that does not
// depend on how it is reached. A caller that sets URL also sets Transport and, where
// a successor shall start before the old generation ends, Overlap; and
// Retry.MaxDelay.
func NewServer(name string) Server {
	return Server{
		Name:            name,
		Transport:       TransportStdio,
		StartupTimeout:  time.Minute,
		CallTimeout:     10 * time.Minute,
		ParkFor:         30 * time.Second,
		DrainTimeout:    10 * time.Second,
		RefreshInterval: 5 * time.Minute,
		PingAfter:       30 * time.Second,
		StopGrace:       1500 * time.Millisecond,
		PingMisses:      3,
		MaxWaiting:      1024,
		MaxMessage:      64 << 20,
		Eras:            ErasAuto,
		Isolation:       IsolationShared,
		MaxSessions:     64,
		SessionIdle:     30 * time.Minute,
		Auth:            Auth{Type: AuthAuto, TokenAuth: TokenAuthAuto, ResourceParam: ResourceAuto},
		Retry: Retry{
			Restart:     RestartAlways,
			FastFor:     10 * time.Minute,
			FirstDelay:  time.Second,
			MaxDelay:    30 * time.Second,
			SlowProbe:   2 * time.Minute,
			WakeEvery:   10 * time.Second,
			WatchFor:    30 * time.Second,
			StableAfter: 30 * time.Second,
			Strikes:     3,
			MaxStarts:   60,
		},
	}
}

// Defaults returns a server with this one's name, transport and first delay, and
// every other setting at its default.
func (s Server) Defaults() Server {
	d := NewServer(s.Name)
	d.Transport, d.Retry.FirstDelay = s.Transport, s.Retry.FirstDelay
	d.setDefaults()
	d.Retry.FirstDelay = NewServer("").Retry.FirstDelay
	return d
}

// setDefaults sets what depends on how the server is reached. A URL costs this
// machine nothing to try.
func (s *Server) setDefaults() {
	longest := 30 * time.Second
	if s.Transport != TransportStdio {
		longest = 10 * time.Second
	}
	s.Overlap, s.Retry.MaxDelay = s.Transport != TransportStdio, max(longest, s.Retry.FirstDelay)
}

// WithDefaults returns s with the default in each place where it has 0 and 0
// means nothing, as in a server that was made by hand.
func (s Server) WithDefaults() Server {
	d := NewServer(s.Name)
	if s.URL != "" {
		d.Transport = TransportAuto
	}
	d.setDefaults()
	s.StartupTimeout = cmp.Or(s.StartupTimeout, d.StartupTimeout)
	s.CallTimeout = cmp.Or(s.CallTimeout, d.CallTimeout)
	s.ParkFor = cmp.Or(s.ParkFor, d.ParkFor)
	s.DrainTimeout = cmp.Or(s.DrainTimeout, d.DrainTimeout)
	s.PingAfter = cmp.Or(s.PingAfter, d.PingAfter)
	s.StopGrace = cmp.Or(s.StopGrace, d.StopGrace)
	s.PingMisses = cmp.Or(s.PingMisses, d.PingMisses)
	s.MaxWaiting = cmp.Or(s.MaxWaiting, d.MaxWaiting)
	s.MaxMessage = cmp.Or(s.MaxMessage, d.MaxMessage)
	r := &s.Retry
	r.FastFor = cmp.Or(r.FastFor, d.Retry.FastFor)
	r.FirstDelay = cmp.Or(r.FirstDelay, d.Retry.FirstDelay)
	r.MaxDelay = cmp.Or(r.MaxDelay, d.Retry.MaxDelay)
	r.SlowProbe = cmp.Or(r.SlowProbe, d.Retry.SlowProbe)
	r.WakeEvery = cmp.Or(r.WakeEvery, d.Retry.WakeEvery)
	r.StableAfter = cmp.Or(r.StableAfter, d.Retry.StableAfter)
	r.Strikes = cmp.Or(r.Strikes, d.Retry.Strikes)
	r.MaxStarts = cmp.Or(r.MaxStarts, d.Retry.MaxStarts)
	return s
}

// Replay says which calls whose outcome is unknown are sent again.
type Replay uint8

const (
	ReplaySafe   Replay = iota // those whose tool is read-only or idempotent by its hints
	ReplayNever                // none
	ReplayAlways               // all
)

// String returns "safe", "never" or "always".
func (r Replay) String() string {
	switch r {
	case ReplayNever:
		return "never"
	case ReplayAlways:
		return "always"
	default:
		return "safe"
	}
}

// Retry holds the reconnect numbers; see lifecycle.Policy for their meaning.
type Retry struct {
	Restart     Restart
	FastFor     time.Duration
	FirstDelay  time.Duration
	MaxDelay    time.Duration // default 10 s for a URL, 30 s for stdio
	SlowProbe   time.Duration
	WakeEvery   time.Duration
	WatchFor    time.Duration // how long after a loss what was lost is looked at often; 0: it is not looked at
	StableAfter time.Duration
	Strikes     int
	MaxStarts   int
}

// Tools says which tools of a server are published, and under which names.
// Patterns are globs over the server's own tool names.
type Tools struct {
	Allow  []string          // if not empty, only these
	Deny   []string          // never these; neither listed nor callable
	Hide   []string          // callable, but not listed
	Rename map[string]string // own name to published name, before any prefix
	Replay map[string]Replay // by own name; overrides the server's
}

// A Plan is the difference between two Configs, by server name, each list
// sorted in the order of the new config (Remove: of the old).
type Plan struct {
	Add, Remove, Change, Keep []string
}

// An Input is a question that a VS Code file has for its user.
type Input struct {
	ID          string
	Description string
	Password    bool     // the answer must not be seen
	Options     []string // if not empty, the answer is one of them
	Default     *string  // nil: there is none
	Variable    string   // the variable that answers the input where nobody is asked
	Origin      Origin
}

// Ask gets the answer to an input whose variable is not set. It is called once
// for each place that refers to the input, and keeps answers itself. known is
// false if nobody answers: then the default counts, and without one the server
// is misconfigured.
type Ask func(i Input) (answer string, known bool)

// Auth is the credential of a server at a URL. Its zero value is that of AuthAuto.
type Auth struct {
	Type AuthType

	ClientID         string // of a client that was registered by hand; "": everline registers itself
	ClientSecret     string
	ClientSecretFile string    // read each time the secret is needed
	PrivateKeyFile   string    // PEM, for TokenAuthJWT
	SigningAlg       string    // ES256, RS256 or EdDSA; "": by the key
	TokenAuth        TokenAuth // overrides what the issuer's metadata says

	Issuer      string // the authorization server; "": discovered
	MetadataURL string // its metadata, in place of discovery
	ClientIDURL string // a client ID metadata document that somebody hosts

	Scopes, DropScopes []string      // in place of those that are discovered, and without these
	Resource           string        // the resource that tokens are for; "": discovered
	ResourceParam      ResourceParam // whether that is sent

	RedirectURI  string // of a client that was registered by hand; "": everline's own
	CallbackPort int    // of a login without a daemon; 0: 7433, or any

	Command      string // prints a token, or JSON with access_token and expires_in; or what AssertionFile has
	Args         []string
	RefreshAfter time.Duration // of a printed token without a lifetime; 0: once it is refused

	AssertionFile string // has the ID token of AuthEnterprise, or the JWT of AuthWorkload; "": Command prints it
	// The identity provider of AuthEnterprise. Its IDPTokenURL may be discovered.
	IDPIssuer, IDPTokenURL, IDPClientID, IDPClientSecret string

	OldEndpoints bool // the server is of 2025-03-26 or older: where it publishes nothing, its endpoints are those of that revision
	AllowPrivate bool // the issuer may be in the own network though the server is not
}

// isSet tells whether anything but the defaults is configured.
func (a Auth) isSet() bool {
	return !reflect.DeepEqual(a.normal(), Auth{}) && !reflect.DeepEqual(a.normal(), NewServer("").Auth)
}

// normal returns a copy in which empty and absent are the same.
func (a Auth) normal() Auth {
	for _, list := range []*[]string{&a.Scopes, &a.DropScopes, &a.Args} {
		if len(*list) == 0 {
			*list = nil
		}
	}
	return a
}

// ServerTLS is how a server at an https URL proves who it is, and who asks. The zero
// value leaves that to the system. Files are PEM, and read again once they have
// changed.
type ServerTLS struct {
	CAFile            string // authorities of its certificate, in place of the system's
	CertFile, KeyFile string // the certificate that it wants of everline; both or none
	ServerName        string // that its certificate must be for; "": the host of the URL
}

// A Sandbox is what the processes of one server may do at most, on Linux with
// Landlock. What is everline's own they may neither read nor write in any case.
type Sandbox struct {
	Read    []string // files and folders; nil: all
	Write   []string // files and folders
	Net     bool     // whether they may use the network; true
	Ports   []string // without Net: TCP ports that they may connect to
	Require bool     // whether the server does not run where this cannot be enforced
}

// Limits are what the processes of one server may use at most, on systems that
// let everline enforce it; 0: no limit.
type Limits struct {
	Memory int64   // bytes, of all its processes together
	Pids   int     // processes and threads
	CPU    float64 // processors: 0.5 is half of one
}

// String reads "file:line".
func (o Origin) String() string {
	if o.Line == 0 {
		return o.File
	}
	return o.File + ":" + strconv.Itoa(o.Line)
}

// String reads "file:line: server: text".
func (w Warning) String() string {
	text := w.Text
	if w.Server != "" {
		text = w.Server + ": " + text
	}
	if w.File == "" {
		return text
	}
	return w.Origin.String() + ": " + text
}

// A SideFile is a file that was read because a configuration file names it: as
// an envFile, or by ${file:path}.
type SideFile struct {
	File   string            // the configuration file
	Named  string            // the path as it stands there, from the folder of File
	Server string            // that it was read for; "" for a setting of the whole
	Digest [sha256.Size]byte // of the text that was taken
}

// SideFiles are those that were read for this Config, in the order of reading.
func (c *Config) SideFiles() []SideFile { return c.sides }

// Path is where the file is.
func (f SideFile) Path() string {
	if filepath.IsAbs(f.Named) {
		return f.Named
	}
	return filepath.Join(filepath.Dir(f.File), f.Named)
}
