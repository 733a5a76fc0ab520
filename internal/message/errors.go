package message

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/rounds"
	"github.com/everline/everline/internal/wire"
)

// A verdict is what a kind of fault means to a client.
type verdict struct {
	code int64
	// readable: a tools/call that fails so is answered by a result that a model
	// can read. Otherwise the request itself was wrong, or nobody reads the
	// answer, and it is a JSON-RPC error.
	readable bool
	words    string // what happened, if not what the kind says; see Fault.TextAs
}

// verdicts is the one table from faults to what clients see. RPC is not in
// it: a server's own error goes through as it is.
var verdicts = [...]verdict{
	fault.Internal:       {code: mcp.CodeInternal, readable: true},
	fault.Canceled:       {code: mcp.CodeCancelled},
	fault.Deadline:       {code: mcp.CodeDeadline, readable: true},
	fault.Unavailable:    {code: mcp.CodeUnavailable, readable: true},
	fault.Disabled:       {code: mcp.CodeDisabled, readable: true},
	fault.Overloaded:     {code: mcp.CodeOverloaded, readable: true},
	fault.NotFound:       {code: mcp.CodeInvalidParams},
	fault.Invalid:        {code: mcp.CodeInvalidParams},
	fault.Missing:        {code: mcp.CodeUnavailable, readable: true},
	fault.Spawn:          {code: mcp.CodeUnavailable, readable: true},
	fault.Dial:           {code: mcp.CodeUnavailable, readable: true},
	fault.Broken:         {code: mcp.CodeLinkLost, readable: true},
	fault.Exited:         {code: mcp.CodeLinkLost, readable: true},
	fault.Wedged:         {code: mcp.CodeLinkLost, readable: true},
	fault.SessionLost:    {code: mcp.CodeLinkLost, readable: true},
	fault.SessionSuspect: {code: mcp.CodeLinkLost, readable: true},
	fault.Unauthorized:   {code: mcp.CodeLogin, readable: true},
	fault.Forbidden:      {code: mcp.CodeLogin, readable: true},
	fault.RateLimited:    {code: mcp.CodeRateLimited, readable: true},
	fault.HTTPStatus:     {code: mcp.CodeBadPeer, readable: true},
	fault.Protocol:       {code: mcp.CodeBadPeer, readable: true},
	fault.TooLarge:       {code: mcp.CodeTooLarge, readable: true},
	fault.NoVersion:      {code: mcp.CodeBadPeer, readable: true},
	fault.Unsupported:    {code: mcp.CodeMethodNotFound},
	fault.RPC:            {code: mcp.CodeInternal},
	fault.Conflict:       {code: mcp.CodeConflict, readable: true},
	fault.Closed:         {code: mcp.CodeShuttingDown, readable: true},
}

// closedLink is the verdict on Closed where a server is meant, not everline.
var closedLink = verdict{code: mcp.CodeLinkLost, readable: true}

// inputLack is the verdict on a call whose server did not get the input that
// it asked for.
var inputLack = verdict{mcp.CodeConflict, true, "%s asked for input that it did not get"}

func verdictOf(f *fault.Fault) verdict {
	switch {
	case errors.Is(f.Err, rounds.Errors):
		return inputLack
	case int(f.Kind) >= len(verdicts):
		return verdicts[fault.Internal]
	case f.Kind == fault.Closed && f.Server != "":
		return closedLink
	default:
		return verdicts[f.Kind]
	}
}

// Failure is the answer to a request that failed with f.
func (m *Message) Failure(f *fault.Fault) Answer { return m.failureAs(f, verdictOf(f)) }

func (m *Message) failureAs(f *fault.Fault, v verdict) Answer {
	if f.RPC != nil {
		return m.serverError(f.RPC)
	}
	if v.readable && m.Method == mcp.ToolsCall {
		return m.readable(f, v)
	}
	return *m.Refusal(m.codeOf(f, v), m.message(f, v), dataOf(f))
}

// CutOff answers a request that the end of everline canceled with f.
func (m *Message) CutOff(f *fault.Fault) Answer {
	c := *f
	c.Kind = fault.Closed
	v := verdicts[fault.Closed]
	v.words = "everline is shutting down"
	return m.failureAs(&c, v)
}

// codeOf is the verdict's code, but for a resource that does not exist: there
// the eras differ (server/resources, Error Handling).
func (m *Message) codeOf(f *fault.Fault, v verdict) int64 {
	resource := m.Method == mcp.ResourcesRead || m.Method == mcp.ResourcesSubscribe
	if f.Kind == fault.NotFound && resource && !m.Modern {
		return mcp.CodeResourceNotFound
	}
	return v.code
}

func (m *Message) message(f *fault.Fault, v verdict) string {
	switch f.Kind {
	case fault.NotFound:
		return m.unknown(f)
	case fault.Invalid:
		return "Invalid params: " + f.Reason()
	case fault.Unsupported:
		return "Method not found: the server does not offer " + m.Method
	default:
		return f.TextAs(v.words, Repeatable(m.Method))
	}
}

// unknown names what was asked for and is not there, in the words of the
// specification's examples.
func (m *Message) unknown(f *fault.Fault) string {
	switch m.Method {
	case mcp.ToolsCall:
		name, _ := m.ItemName()
		return "Unknown tool: " + name
	case mcp.PromptsGet:
		name, _ := m.ItemName()
		return "Unknown prompt: " + name
	case mcp.CompletionComplete:
		return "Unknown reference"
	case mcp.ResourcesRead, mcp.ResourcesSubscribe, mcp.ResourcesUnsubscribe:
		return "Resource not found"
	default: // an extension method, for a server that is not there
		return "Invalid params: " + f.Reason()
	}
}

// serverError passes a server's own error on, verbatim, data included. Only
// codes that modern clients must never see get another number.
func (m *Message) serverError(e *fault.RPCError) Answer {
	raw, code := e.Raw, e.Code
	if m.Modern {
		switch code {
		case mcp.CodeResourceNotFound:
			code = mcp.CodeInvalidParams
		case mcp.CodeURLElicitation:
			code = mcp.CodeNeedsURL
		}
		if code != e.Code {
			raw = wire.Set(raw, wire.AppendInt(nil, code), "code")
		}
	}
	return Answer{Status: m.statusOf(code), Head: wire.AppendRawError(nil, m.ID, raw)}
}

// Refusal is a JSON-RPC error of our own.
func (m *Message) Refusal(code int64, text string, data []byte) *Answer {
	return &Answer{Status: m.statusOf(code), Head: wire.AppendError(nil, m.ID, code, text, data)}
}

// statusOf is the HTTP status that goes with an error code. Legacy revisions
// answer a request that was understood with 200 whatever became of it.
func (m *Message) statusOf(code int64) int {
	if code == mcp.CodeShuttingDown {
		return http.StatusServiceUnavailable
	}
	if !m.Modern {
		return http.StatusOK
	}
	switch code {
	case mcp.CodeMethodNotFound:
		return http.StatusNotFound
	case mcp.CodeInvalidRequest, mcp.CodeInvalidParams, mcp.CodeHeaderMismatch, mcp.CodeMissingCapability, mcp.CodeUnsupportedVersion:
		return http.StatusBadRequest
	default:
		return http.StatusOK
	}
}

// dataOf says what is known about a request that failed on the way.
func dataOf(f *fault.Fault) []byte {
	switch f.Kind {
	case fault.NotFound, fault.Invalid, fault.Unsupported:
		return nil
	default:
		return Outcome(f)
	}
}

// Outcome encodes what is known about a call that could not be completed:
// {"outcome","server","state","generation","kind","cause","retryAfterMs"}; what
// is not known is left out.
func Outcome(f *fault.Fault) []byte {
	b := append([]byte(`{"outcome":"`), f.Outcome.String()...)
	b = append(b, '"')
	if f.Server != "" {
		b = wire.AppendString(append(b, `,"server":`...), f.Server)
	}
	if f.State != "" {
		b = wire.AppendString(append(b, `,"state":`...), f.State)
	}
	if f.Gen != 0 {
		b = strconv.AppendUint(append(b, `,"generation":`...), f.Gen, 10)
	}
	b = wire.AppendString(append(b, `,"kind":`...), f.Kind.String())
	cause := f.Detail()
	if cause == "" {
		cause = strings.ReplaceAll(f.Kind.String(), "_", " ")
	}
	b = wire.AppendString(append(b, `,"cause":`...), cause)
	if f.RetryAfter > 0 {
		b = wire.AppendInt(append(b, `,"retryAfterMs":`...), f.RetryAfter.Milliseconds())
	}
	return append(b, '}')
}

// Overloaded refuses a request that nobody has looked at, because there is too much of
// something for now: when it may come again is in the data.
func (m *Message) Overloaded(text string, wait time.Duration) *Answer {
	f := fault.New(fault.Overloaded, m.Method, text)
	f.Outcome, f.RetryAfter = fault.NotSent, wait
	a := m.Refusal(mcp.CodeOverloaded, text, Outcome(f))
	a.RetryAfter = wait
	return a
}

// NoMethod answers a request for what nobody serves.
func (m *Message) NoMethod() Answer {
	return *m.Refusal(mcp.CodeMethodNotFound, "Method not found: "+m.Method, nil)
}
