// Package transport says what a link to one generation of one server is: the
// Conn that moves frames, what can be proved about a request that got no answer,
// and how a link is broken on purpose. It opens none: stdio and http below it do,
// and internal/mcptest does for tests. It does not know what the methods mean.
package transport

import (
	"context"
	"time"

	"github.com/everline/everline/internal/wire"
)

// Kind names a way to reach a server.
type Kind uint8

const (
	Stdio  Kind = iota // a child process
	HTTP               // Streamable HTTP, both eras
	SSE                // HTTP+SSE of 2024-11-05
	Memory             // a pipe inside this process
)

// String returns "stdio", "http", "sse" or "memory".
func (k Kind) String() string { return [...]string{"stdio", "http", "sse", "memory"}[k] }

// A Request is one JSON-RPC request, encoded by the caller.
type Request struct {
	ID     int64  // unique on this Conn; the same number as in Frame
	Method string // for headers and classification
	// Name is the tool's or prompt's name or the resource's URI, for the
	// Mcp-Name header (modern Streamable HTTP); "" where the method has none.
	Name   string
	Header [][2]string // further header fields (Mcp-Param-*, traceparent), over HTTP only
	// Frame is the whole message, without a line end. The transport may keep
	// it, and write into the capacity behind it: nobody else may change it.
	Frame []byte
	// Stream marks a request that stays open for long (subscriptions/listen):
	// its silence is no failure.
	Stream bool
}

// DefaultMaxMessage is Options.MaxMessage where that is 0.
const DefaultMaxMessage = 64 << 20

// An Inbound is a message from the server that answers no waiting Call: a
// notification, a request, or the late answer to a Call that was given up.
type Inbound struct {
	Msg wire.Message
	// CallID is the id of the request on whose own stream the message came, or 0
	// where the transport cannot tell.
	CallID int64
}

// Options are what every transport needs to know.
type Options struct {
	// Inbound receives notifications and requests, on the reader's goroutine,
	// in order; it must not block. Required. The message's bytes may be kept.
	Inbound func(Inbound)
	// Stderr receives each line that a child writes to its stderr; may be nil.
	// It must not block.
	Stderr func(line string)
	// Spawned gets the process id of a child right after its start; may be nil.
	Spawned func(pid int)
	// MaxMessage bounds one message in bytes, in both directions. 0: 64 MiB.
	MaxMessage int64
	// Injector can break the link on purpose; nil: nobody can.
	Injector *Injector
}

// A Conn is one link to one generation of a server. All methods may be called by
// many goroutines at once. Every error is a *fault.Fault whose Outcome says
// what this transport can prove about the request.
type Conn interface {
	// Call sends one request and returns its answer, a result or an error
	// object alike. It returns as soon as ctx ends: the request is then
	// forgotten and a late answer is dropped. It does not send
	// notifications/cancelled; CancelByClose says whether that is needed.
	Call(ctx context.Context, r *Request) (wire.Message, error)
	// Send writes one notification or one answer to a server's request. What
	// the server says to it is returned, and means nothing for the link.
	Send(ctx context.Context, frame []byte) error
	// Agree tells the link what the handshake found: the protocol version for
	// the headers, and whether the server is of the modern era. For a legacy
	// server over Streamable HTTP it also opens the standing GET stream, in
	// the background. Called once, before the first Call after the handshake.
	Agree(version string, modern bool)
	// Relisten receives a signal (at most one is pending) after any gap in
	// which notifications may have been lost.
	Relisten() <-chan struct{}
	// Done is closed when the link has ended and cannot be used any more.
	Done() <-chan struct{}
	// Err says why the link ended; nil while it has not, or if Close ended it.
	Err() error
	// Close ends the link in order (DELETE for a session; stdin, TERM, KILL
	// for a process), bounded by ctx and by the transport's own limits. It is
	// idempotent, and returns what would not stop.
	Close(ctx context.Context) error
	// Info describes the link, for status.
	Info() Info
}

// Info describes a link.
type Info struct {
	Kind    Kind
	PID     int       // Stdio: the child's process id
	URL     string    // HTTP, SSE
	HTTP    string    // HTTP, SSE: the version that the last answer came by, "1.1" or "2"; "" before the first
	Session string    // HTTP: a digest of its id, which itself opens it; "" for none
	Started time.Time // when the link was opened
	Noise   uint64    // lines or events that were not JSON-RPC, skipped
	// LastNoise is the newest of them, cut to 200 bytes; "" if there was none.
	LastNoise   string
	LateAnswers uint64 // answers that no call waited for, dropped
	Ignored     uint64 // messages that meant nothing to whoever uses the link, and are counted there
	// StderrBytes is how much a child has written to its stderr, and StderrRate
	// how many bytes a second it wrote over the last seconds.
	StderrBytes uint64
	StderrRate  float64
	CPU         time.Duration // that a child and what it had started have used; 0 until all of it has ended, and where the system does not tell
	Notices     []string      // what was configured and could not be had, for people
	// CancelByClose: ending the Call's context tells the server, and no
	// notifications/cancelled is to be sent. Valid after Agree.
	CancelByClose bool
	// Sessionless: the server of a legacy era has given no session id, over which
	// alone a client can answer it. Valid after Agree.
	Sessionless bool
}
