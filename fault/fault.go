// Package fault is everline's one error type: what failed, where, of which
// generation of which server, and what is known about the request. It does not
// decide what to do about it: policy belongs to the reader of the Kind.
package fault

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"
)

// Kind says what sort of failure it was. Code branches on kinds, never on text.
type Kind uint8

const (
	// Internal is a failure that no other kind describes: a bug, or a foreign
	// error that was not classified where it was born.
	Internal Kind = iota
	// Canceled: the caller gave the request up.
	Canceled
	// Deadline: no answer came before the request's deadline.
	Deadline
	// Unavailable: the server is away and no attempt that can help is running
	// or due in time. RetryAfter says when the next one is.
	Unavailable
	// Disabled: somebody disabled the server.
	Disabled
	// Overloaded: too many requests wait already.
	Overloaded
	// NotFound: no such server, tool, prompt or resource.
	NotFound
	// Invalid: the request or the configuration is wrong; sending it again
	// cannot help.
	Invalid
	// Missing: the configured command does not exist, or its folder does not.
	Missing
	// Spawn: the command exists but could not be started.
	Spawn
	// Dial: no connection to the server: DNS, TCP or TLS failed.
	Dial
	// Broken: the link ended: EOF, reset, exit, a stream cut.
	Broken
	// Exited: the server's process ended.
	Exited
	// Wedged: the server is there but neither reads nor answers.
	Wedged
	// SessionLost: the server says that it does not know the session.
	SessionLost
	// SessionSuspect: the answer may mean a lost session; a probe decides.
	SessionSuspect
	// Unauthorized: 401 with a challenge.
	Unauthorized
	// Forbidden: 403.
	Forbidden
	// RateLimited: 429, or 503 with Retry-After.
	RateLimited
	// HTTPStatus: another HTTP status that says nothing more exact.
	HTTPStatus
	// Protocol: the peer broke JSON-RPC, MCP or its transport's rules.
	Protocol
	// TooLarge: a message is over the configured limit.
	TooLarge
	// NoVersion: no protocol version in common.
	NoVersion
	// Unsupported: the peer does not offer this capability or method.
	Unsupported
	// RPC: the server's own JSON-RPC error; see Fault.RPC. The link is fine.
	RPC
	// Conflict: the operation does not fit the state, such as reconnecting a
	// disabled server.
	Conflict
	// Closed: everline, or this part of it, is shutting down.
	Closed
)

var kindNames = [...]string{
	"internal", "canceled", "deadline", "unavailable", "disabled", "overloaded", "not_found", "invalid",
	"missing", "spawn", "dial", "broken", "exited", "wedged", "session_lost", "session_suspect", "unauthorized",
	"forbidden", "rate_limited", "http_status", "protocol", "too_large", "no_version", "unsupported", "rpc",
	"conflict", "closed",
}

// String returns the kind's stable name, as used in JSON and metrics.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "kind(" + strconv.Itoa(int(k)) + ")"
}

// KindNamed returns the kind of this name; Internal if there is none.
func KindNamed(name string) Kind {
	for k, other := range kindNames {
		if other == name {
			return Kind(k)
		}
	}
	return Internal
}

// BlamesLink tells whether the connection may be why a request failed in this
// way. Whether it counts against the connection is found out by a probe. A
// client's cancel, a server's own JSON-RPC error and a missing capability do
// not; nor does a lost session, which ends its generation immediately while other
// calls on it may still be answered; nor a deadline: the client chose it, and
// busy is not wedged.
func (k Kind) BlamesLink() bool {
	switch k {
	case Broken, Exited, Wedged, Dial, HTTPStatus, Protocol:
		return true
	default:
		return false
	}
}

// Outcome is what is known about a request that failed.
type Outcome uint8

const (
	// Unknown: it was sent, and whether it was executed cannot be told. The
	// zero value: a caller that cannot prove more says this.
	Unknown Outcome = iota
	// NotSent: proof that the server did not execute it.
	NotSent
	// Answered: the server answered it, with a result or an error.
	Answered
)

// String returns the outcome's stable name.
func (o Outcome) String() string {
	switch o {
	case NotSent:
		return "not_sent"
	case Answered:
		return "answered"
	default:
		return "unknown"
	}
}

// RPCError is a JSON-RPC error object exactly as the server sent it; where
// JSON-RPC does not allow what it sent, one that is allowed, with that as data.
type RPCError struct {
	Code    int64
	Message string
	Raw     []byte // the whole error object
}

func (e *RPCError) Error() string {
	return e.Message + " (" + strconv.FormatInt(e.Code, 10) + ")"
}

// OpAuthorize is the Op of faults about the credential that a server is shown.
const OpAuthorize = "authorize"

// A Fault is one failure. Its fields are set once, by the code that saw the
// failure; layers above may fill in Server and Gen, and nothing else.
type Fault struct {
	Kind    Kind
	Op      string // what was being done: "tools/call", "initialize", "start"
	Server  string // the server's configured name; "" where no server is meant
	Gen     uint64 // the generation it happened to; 0 if none
	Outcome Outcome
	// RetryAfter is how long to wait before trying again can help; 0 if
	// unknown.
	RetryAfter time.Duration
	State      string    // how the server was seen when a call failed: "connected", "reconnecting", …; "" if no server is meant
	Status     int       // HTTP status, if there was one
	Exit       string    // how the process ended: "exit 1", "signal: killed"
	Stderr     []string  // the last lines that the process wrote to stderr
	RPC        *RPCError // valid for RPC
	Remedy     string    // what a person can do about it, as a command or a sentence
	Err        error     // the cause; may be nil
}

// New returns a fault with a plain text as its cause.
func New(kind Kind, op, text string) *Fault {
	return &Fault{Kind: kind, Op: op, Err: errors.New(text)}
}

// Error reads "server (gen 3): op: cause"; parts that are not known are left out.
func (f *Fault) Error() string {
	var b strings.Builder
	if f.Server != "" {
		b.WriteString(f.Server)
		if f.Gen != 0 {
			b.WriteString(" (gen " + strconv.FormatUint(f.Gen, 10) + ")")
		}
		b.WriteString(": ")
	}
	if f.Op != "" {
		b.WriteString(f.Op + ": ")
	}
	b.WriteString(f.Reason())
	return b.String()
}

// Reason is the cause alone, without server and operation.
func (f *Fault) Reason() string {
	switch {
	case f.Err != nil:
		return f.Err.Error()
	case f.RPC != nil:
		return f.RPC.Error()
	default:
		return strings.ReplaceAll(f.Kind.String(), "_", " ")
	}
}

func (f *Fault) Unwrap() error { return f.Err }

// Cause returns f as the cause of a fault of the same server. It reads as the
// text of f alone, so that server and operation are named once; errors.Is and
// errors.As find f in it.
func (f *Fault) Cause() error { return cause{f} }

type cause struct{ f *Fault }

func (c cause) Error() string { return c.f.Reason() }
func (c cause) Unwrap() error { return c.f }

// Is makes errors.Is(err, &Fault{Kind: k}) match every fault of kind k.
func (f *Fault) Is(target error) bool {
	t, ok := target.(*Fault)
	return ok && t.Kind == f.Kind && t.Op == "" && t.Server == "" && t.Err == nil
}

// At returns a copy that names the server and the generation, where it named none.
func (f *Fault) At(server string, gen uint64) *Fault {
	c := *f
	if c.Server == "" {
		c.Server = server
	}
	if c.Gen == 0 {
		c.Gen = gen
	}
	return &c
}

// From turns any error into a Fault. It is the only place that classifies
// errors of other packages that reached us unclassified: contexts, and the
// rest as Internal with outcome Unknown. A Fault in the chain is returned as
// it is. From(nil) is nil.
func From(op string, err error) *Fault {
	if err == nil {
		return nil
	}
	var f *Fault
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, context.Canceled):
		return &Fault{Kind: Canceled, Op: op, Err: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &Fault{Kind: Deadline, Op: op, Err: err}
	default:
		return &Fault{Kind: Internal, Op: op, Err: err}
	}
}

// As returns the Fault in the chain of err; ok is false if there is none, and
// for nil.
func As(err error) (f *Fault, ok bool) {
	ok = errors.As(err, &f)
	return f, ok && f != nil
}

// Is tells whether err is, or wraps, a Fault of this kind; false for nil.
func Is(err error, kind Kind) bool {
	f, ok := As(err)
	return ok && f.Kind == kind
}

// KindOf is the kind of err, Internal for a foreign error. It must not be
// called with nil.
func KindOf(err error) Kind { return From("", err).Kind }
