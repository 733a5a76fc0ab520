// Package admin is the API by which people and their tools look at a running
// everline and act on it: JSON over HTTP on a socket that only the same user
// can open, the client for it, and the health handlers. It decides nothing:
// every answer is what the hub says.
package admin

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
)

// The types of this file are the API's JSON. Times are RFC 3339, null where
// there is none; members are added, never renamed or removed.

// Status is the answer of GET /v1/status.
type Status struct {
	Endpoint  string    `json:"endpoint"` // the URL for MCP clients; "" if there is none
	PID       int       `json:"pid"`
	Version   string    `json:"version"`
	StartedAt time.Time `json:"startedAt"`
	Run       string    `json:"run"`   // of this process; the numbers of another's events begin anew
	Ready     bool      `json:"ready"` // no required server is away, as /readyz says
	StateDir  string    `json:"stateDir"`
	Config    []string  `json:"config"` // the files
	// ConfigError is why the files, as they are now, are not applied; null if they are.
	ConfigError      *string    `json:"configError"`
	ConfigRemedy     *string    `json:"configRemedy"` // what to type about it
	ConfigErrorSince *time.Time `json:"configErrorSince"`
	Warnings         []string   `json:"warnings"` // of the configuration that is applied
	Servers          []Server   `json:"servers"`
	// Problems are what is wrong with what everline itself keeps on disk.
	Problems []Problem `json:"problems"`
	// Orphans are processes of an earlier everline that were alive when this
	// one started, and that it ended.
	Orphans []Orphan `json:"orphans"`
	// Exposed is by which ways others than the user come in without showing who they are.
	Exposed []Exposure `json:"exposed"`
}

// Exposure is one way to come in that is open to everybody, for as long as it is.
type Exposure struct {
	To     string `json:"to"` // ToNetwork or ToMachine
	Text   string `json:"text"`
	Remedy string `json:"remedy"`
}

// Whom an Exposure lets in.
const (
	ToNetwork = "network" // whoever reaches the address
	ToMachine = "machine" // every user of this machine
)

// Problem is something that is wrong with what everline itself keeps on disk,
// for as long as it is so.
type Problem struct {
	About  string    `json:"about"`  // "state", "pins" or "audit"
	Server string    `json:"server"` // "" if it is about no server
	Text   string    `json:"text"`
	Remedy string    `json:"remedy"`
	Since  time.Time `json:"since"`
}

// Orphan is a process that a crash of everline left behind.
type Orphan struct {
	Server string `json:"server"` // "" for what a server had started
	PID    int    `json:"pid"`
	Ended  bool   `json:"ended"` // false: it would not go
}

// Offered is how many items a server lists itself.
type Offered struct {
	Tools     int `json:"tools"`
	Prompts   int `json:"prompts"`
	Resources int `json:"resources"`
	Templates int `json:"templates"`
}

// All is what the server offers itself, whether or not clients see less.
func (s *Server) All() Offered {
	if s.Offered != nil {
		return *s.Offered
	}
	return Offered{s.Tools, s.Prompts, s.Resources, s.Templates}
}

// Server is what is known about one server now.
type Server struct {
	Name            string      `json:"name"`
	State           event.State `json:"state"`
	Generation      uint64      `json:"generation"` // newest ever started; 0 if none was
	Transport       string      `json:"transport"`
	URL             *string     `json:"url"`             // without credentials
	PID             *int        `json:"pid"`             // of the process of the serving generation
	Era             *string     `json:"era"`             // "legacy" or "modern"
	ProtocolVersion *string     `json:"protocolVersion"` // as negotiated
	Tools           int         `json:"tools"`           // that clients see listed, as the three below
	Prompts         int         `json:"prompts"`
	Resources       int         `json:"resources"`
	Templates       int         `json:"templates"`
	Offered         *Offered    `json:"offered,omitempty"`  // what it lists itself, where clients see less
	ToolTokens      int         `json:"toolTokensEstimate"` // what its listed tools cost a model that reads them: bytes / 4
	CatalogAt       *time.Time  `json:"catalogAt"`          // when that catalog was listed
	Since           *time.Time  `json:"since"`              // when the state began
	AwaySince       *time.Time  `json:"awaySince"`          // since when no generation serves that should, over all attempts; null if one does, or if it is idle or disabled
	NextAttempt     *time.Time  `json:"nextAttempt"`
	Attempt         int         `json:"attempt"` // generations lost in a row
	Cause           *string     `json:"cause"`
	CauseKind       *string     `json:"causeKind"` // see fault.Kind
	Exit            *string     `json:"exit"`      // how the process ended: "exit 1"
	Stderr          []string    `json:"stderr"`    // its last lines
	Out             int         `json:"out"`       // calls in flight
	Waiting         int         `json:"waiting"`   // calls that wait for the server
	Required        bool        `json:"required"`
	Origin          string      `json:"origin"` // file:line
	Remedy          *string     `json:"remedy"` // what to type
	Auth            *Auth       `json:"auth"`   // how its credential is; null of a command
	Warnings        []string    `json:"warnings"`
	ConfigWarnings  []string    `json:"configWarnings"`       // those of Status.Warnings that are about it
	Sessions        []Session   `json:"sessions"`             // the connections that not all clients share
	Noise           uint64      `json:"noise"`                // lines where messages belong that were none: of the serving generation, or of the newest start
	Ignored         uint64      `json:"ignored"`              // messages of the same generation that meant nothing: notifications that no revision defines, progress of what is over
	StderrRate      float64     `json:"stderrBytesPerSecond"` // of late
	Calls           uint64      `json:"calls"`                // that have ended since everline started, however they did
	Outcomes        Outcomes    `json:"outcomes"`             // the same by how they ended
	Saved           uint64      `json:"saved"`                // that were answered, and had failed without everline
	Repeated        uint64      `json:"repeated"`             // sends beyond the first of a call
	Parked          uint64      `json:"parked"`               // waits of calls for a generation
	Starts          uint64      `json:"starts"`               // generations, since everline started
	OutageMS        int64       `json:"outageMs"`             // for how long it was away since then
	Handshake       []Phase     `json:"handshake"`            // how the serving generation came up
	P50             *float64    `json:"latencyMsP50"`         // of the newest 256 answers, waiting included
	P95             *float64    `json:"latencyMsP95"`
	Memory          *int64      `json:"memoryBytes"` // resident, of its process and all below it; null where that is not known
}

// Outcomes are how many calls have ended, by how they did.
type Outcomes struct {
	Answered  uint64 `json:"answered"`
	ToolError uint64 `json:"toolError"`
	RPCError  uint64 `json:"rpcError"`
	NotSent   uint64 `json:"notSent"`
	Unknown   uint64 `json:"unknown"`
	Refused   uint64 `json:"refused"`
	Canceled  uint64 `json:"canceled"`
}

// Phase is one part of how a generation came up: spawn, first byte, era, initialize
// or list.
type Phase struct {
	Phase string  `json:"phase"`
	MS    float64 `json:"ms"`
}

// Session is the connection to a server that one client has for itself, or that
// clients of an older revision share.
type Session struct {
	Client     uint64      `json:"client"`  // a number that no other client of this run has; 0: clients share it
	Clients    int         `json:"clients"` // that have it
	Era        *string     `json:"era"`     // in which the server is spoken to there, where that is another era than elsewhere
	State      event.State `json:"state"`
	Generation uint64      `json:"generation"` // counted within the session
	PID        *int        `json:"pid"`
	Since      *time.Time  `json:"since"`
	AwaySince  *time.Time  `json:"awaySince"`
	Out        int         `json:"out"` // calls in flight
	Cause      *string     `json:"cause"`
}

// Event is one line of GET /v1/events.
type Event struct {
	Seq        uint64    `json:"seq"` // rises by one; a gap means that older events were dropped
	Time       time.Time `json:"time"`
	Server     string    `json:"server"`
	Generation uint64    `json:"generation"`
	Session    uint64    `json:"session,omitempty"` // the client whose own connection it is about
	Kind       string    `json:"kind"`              // connecting, connected, start_failed, lost, stopped, …
	Text       string    `json:"text"`
	// Data is what the text says, for programs; its members follow from the kind.
	Data map[string]any `json:"data"`
	// Trace is that of the call which the event is about; zero for none.
	Trace [16]byte `json:"-"`
}

// LogLine is one line of GET /v1/servers/{name}/logs.
type LogLine struct {
	Time       time.Time `json:"time"`
	Generation uint64    `json:"generation"`
	Text       string    `json:"text"`
	N          uint64    `json:"n"` // rises by one; a gap means that older lines were dropped
}

// Tool is one element of GET /v1/tools.
type Tool struct {
	Name       string          `json:"name"` // as clients see it
	Server     string          `json:"server"`
	Tool       string          `json:"tool"` // as its server calls it
	Hidden     bool            `json:"hidden"`
	ReadOnly   bool            `json:"readOnly"`
	Idempotent bool            `json:"idempotent"`
	Tokens     int             `json:"tokensEstimate"` // bytes / 4; 0 if hidden
	Definition json.RawMessage `json:"definition"`     // as the server sent it
}

// CallRequest is the body of POST /v1/call. Without a server, tool is the name
// that clients see.
type CallRequest struct {
	Server    string          `json:"server,omitempty"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Probe     bool            `json:"probe,omitempty"`     // a drill's own call, not a client's
	Forms     bool            `json:"forms,omitempty"`     // the caller fills in forms: the answer may be a stream, see CallLine
	TimeoutMS int64           `json:"timeoutMs,omitempty"` // 0: as long as the request lasts
}

// Version is the answer of GET /v1/version.
type Version struct {
	Version string `json:"version"`
	PID     int    `json:"pid"`
}

// Health is the answer of GET /healthz, /startupz and /readyz.
type Health struct {
	Status  string   `json:"status"`            // "ok", "not ready", "not well", "starting" or "stopping"
	Missing []string `json:"missing,omitempty"` // required servers that cannot take calls
	// Servers are those that are missing, or all that were looked at.
	Servers []Readiness `json:"servers,omitempty"`
	Parts   []string    `json:"parts,omitempty"` // of everline, that do not work
	// Warnings say what cannot be written to the state folder; everline works without.
	Warnings []string `json:"warnings,omitempty"`
}

// Readiness is whether one server can take calls.
type Readiness struct {
	Server      string      `json:"server"`
	Ready       bool        `json:"ready"`
	State       event.State `json:"state"`
	Cause       *string     `json:"cause"`
	NextAttempt *time.Time  `json:"nextAttempt"`
}

// Error is the body of every answer that is not 2xx.
type Error struct {
	Error ErrorBody `json:"error"`
}

// ErrorBody says what failed.
type ErrorBody struct {
	Kind         string          `json:"kind"`
	Message      string          `json:"message"`
	Op           string          `json:"op,omitempty"`
	Server       string          `json:"server,omitempty"`
	Generation   uint64          `json:"generation,omitempty"`
	Outcome      string          `json:"outcome,omitempty"`
	RetryAfterMS int64           `json:"retryAfterMs,omitempty"`
	Exit         string          `json:"exit,omitempty"`
	Stderr       []string        `json:"stderr,omitempty"`
	Remedy       string          `json:"remedy,omitempty"`
	RPC          json.RawMessage `json:"rpc,omitempty"` // the server's own error object
}

// known returns nil for a zero value, which JSON shows as null.
func known[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

func knownTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// shapeServer turns a status into JSON; hide takes secrets out of texts that
// are not ours.
func shapeServer(st everline.Status, required bool, hide func(string) string) Server {
	s := Server{
		Name: st.Name, State: st.State, Generation: st.Generation, Transport: string(st.Transport),
		URL: known(hide(st.URL)), PID: known(st.PID), Era: known(string(st.Era)), ProtocolVersion: known(st.Version),
		Tools: st.Counts[everline.Tools], Prompts: st.Counts[everline.Prompts],
		Resources: st.Counts[everline.Resources], Templates: st.Counts[everline.Templates],
		ToolTokens: st.Tokens,
		CatalogAt:  knownTime(st.CatalogAt), Since: knownTime(st.Since), AwaySince: knownTime(st.AwaySince), NextAttempt: knownTime(st.Next), Attempt: st.Attempt,
		Stderr: []string{}, Out: st.Out, Waiting: st.Waiting, Required: required,
		Origin: st.Origin.String(), Remedy: known(hide(st.Remedy)), Warnings: hideAll(st.Warnings, hide), ConfigWarnings: []string{},
		Noise: st.Noise, Ignored: st.Ignored, StderrRate: st.StderrRate, Calls: st.Calls, Outcomes: Outcomes(st.Outcomes),
		Saved: st.Saved, Repeated: st.Repeated, Parked: st.Parked, Starts: st.Starts, OutageMS: st.Outage.Milliseconds(), P50: milliseconds(st.P50), P95: milliseconds(st.P95),
	}
	if more(st.Offered, st.Counts) {
		s.Offered = &Offered{
			Tools: st.Offered[everline.Tools], Prompts: st.Offered[everline.Prompts],
			Resources: st.Offered[everline.Resources], Templates: st.Offered[everline.Templates],
		}
	}
	s.Handshake = make([]Phase, len(st.Handshake))
	for i, p := range st.Handshake {
		s.Handshake[i] = Phase{p.Name, float64(p.Took.Microseconds()) / 1000}
	}
	s.Sessions = make([]Session, len(st.Sessions))
	for i, o := range st.Sessions {
		s.Sessions[i] = Session{Client: o.Client, Clients: o.Clients, Era: known(string(o.Era)), State: o.State, Generation: o.Generation, PID: known(o.PID), Since: knownTime(o.Since), AwaySince: knownTime(o.AwaySince), Out: o.Out}
		if o.Cause != nil {
			s.Sessions[i].Cause = known(hide(o.Cause.Reason()))
		}
	}
	if st.Auth != nil {
		a := ShapeAuth(st.Auth, hide)
		s.Auth = &a
	}
	if c := st.Cause; c != nil {
		s.Cause, s.CauseKind, s.Exit = known(hide(c.Reason())), known(c.Kind.String()), known(c.Exit)
		s.Stderr = hideAll(c.Stderr, hide)
	}
	return s
}

// more reports whether some number of all is larger than its counterpart of seen.
func more(all, seen [4]int) bool {
	for k := range all {
		if all[k] > seen[k] {
			return true
		}
	}
	return false
}

func milliseconds(d time.Duration) *float64 { return known(float64(d.Microseconds()) / 1000) }

// hideAll never returns nil, so that JSON shows an empty list.
func hideAll(texts []string, hide func(string) string) []string {
	hidden := make([]string, len(texts))
	for i, t := range texts {
		hidden[i] = hide(t)
	}
	return hidden
}

func shapeError(f *fault.Fault, hide func(string) string) Error {
	e := ErrorBody{
		Kind: f.Kind.String(), Message: hide(f.Reason()), Op: f.Op, Server: f.Server, Generation: f.Gen,
		Outcome: f.Outcome.String(), RetryAfterMS: f.RetryAfter.Milliseconds(), Exit: f.Exit, Remedy: hide(f.Remedy),
	}
	for _, line := range f.Stderr {
		e.Stderr = append(e.Stderr, hide(line))
	}
	if f.RPC != nil && json.Valid(f.RPC.Raw) {
		e.RPC = f.RPC.Raw
	}
	return Error{e}
}

// Fault is the way back: the client's view of the error.
func (e ErrorBody) Fault() *fault.Fault {
	f := &fault.Fault{
		Kind: kindNamed(e.Kind), Op: e.Op, Server: e.Server, Gen: e.Generation,
		RetryAfter: time.Duration(e.RetryAfterMS) * time.Millisecond, Exit: e.Exit, Stderr: e.Stderr, Remedy: e.Remedy,
		Err: errors.New(e.Message),
	}
	for _, o := range []fault.Outcome{fault.NotSent, fault.Answered} {
		if o.String() == e.Outcome {
			f.Outcome = o
		}
	}
	return f
}

func kindNamed(name string) fault.Kind {
	for k := fault.Internal; k <= fault.Closed; k++ {
		if k.String() == name {
			return k
		}
	}
	return fault.Internal
}
