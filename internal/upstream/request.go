package upstream

import (
	"bytes"
	"unicode/utf8"

	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/tracing"
	"github.com/everline/everline/internal/wire"
)

// A Call is one request to the server. Params are the client's; where they
// name a tool or prompt (params.name, or params.ref.name of a completion) the
// upstream puts Name there if it differs.
type Call struct {
	Method string
	Name   string // tool or prompt name or resource URI, for headers; "" if the method has none
	Sent   []byte // the name as JSON, where the server's own is no text; else nil
	Params []byte // raw object; nil for none. Not changed
	// Headers are the tool's header parameters (modern Streamable HTTP).
	Headers []mcp.HeaderParam
	// Progress gets the params of each progress notification, in order, with
	// the client's own progressToken; it must not block. nil: no progress wanted.
	Progress func(params []byte)
	// LogLevel is what the client wants to hear during this call (modern); "".
	LogLevel string
	// Capabilities are what the client has declared to serve, for a modern
	// server, where Params do not say it themselves; nil for nothing.
	Capabilities []byte
	// Task asks a server of 2025-11-25 for a task in place of the result.
	Task bool
	// Client is who the call is made for. nil: somebody who serves no requests;
	// what the server asks for during the call is refused, and put to no other.
	Client Client
	// By and Exposed are for whoever observes the call; nil and "" say nothing.
	By      *event.Caller
	Exposed string
	// Span is what is recorded of this send; nil: nothing is. While others are told
	// of it, its context takes the place of the one in Params.
	Span *tracing.Span
	// Internal tells that everline asks of its own accord, as each new
	// generation is told of the clients' subscriptions: a good answer then
	// proves no health.
	Internal bool
}

// Check is what is wrong with a call that no server could be sent; nil if it is
// well. Params and Capabilities are objects, or absent.
func (c *Call) Check() *fault.Fault {
	text := ""
	switch {
	case c.Method == "":
		text = "the call has no method"
	case !isObject(c.Params):
		text = "the params are no JSON object"
	case !isObject(c.Capabilities):
		text = "the capabilities are no JSON object"
	default:
		return nil
	}
	f := fault.New(fault.Invalid, c.Method, text)
	f.Outcome = fault.NotSent
	return f
}

// isObject tells whether raw is one JSON object and nothing else, or absent.
func isObject(raw []byte) bool {
	return raw == nil || wire.IsObject(raw) && wire.Valid(raw) && utf8.Valid(raw)
}

// A Result is what a server has answered a Call with.
type Result struct {
	Raw  []byte // the result as the server sent it, but for what Upstream.Call says
	URIs bool   // some member of it is called "uri"
}

// maxErrorLook is up to how many bytes of a result are looked through.
const maxErrorLook = 256 << 10

// IsError tells whether a result of tools/call says that the tool has failed. One
// of more than 256 KiB counts as one that does not.
func (r *Result) IsError() bool {
	return len(r.Raw) <= maxErrorLook && bytes.Contains(r.Raw, []byte("isError")) && string(wire.Get(r.Raw, "isError")) == "true"
}
