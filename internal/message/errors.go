package message

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

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
	words    string // what happened; %s is the server. See tell
}

// verdicts is the one table from faults to what clients see. RPC is not in
// it: a server's own error goes through as it is.
var verdicts = [...]verdict{
	fault.Internal:       {mcp.CodeInternal, true, "everline failed on this request"},
	fault.Canceled:       {mcp.CodeCancelled, false, "the request was canceled"},
	fault.Deadline:       {mcp.CodeDeadline, true, "%s did not answer in time"},
	fault.Unavailable:    {mcp.CodeUnavailable, true, "%s is not available now"},
	fault.Disabled:       {mcp.CodeDisabled, true, "%s is disabled"},
	fault.Overloaded:     {mcp.CodeOverloaded, true, "too many requests wait for %s already"},
	fault.NotFound:       {mcp.CodeInvalidParams, false, "not found"},
	fault.Invalid:        {mcp.CodeInvalidParams, false, "invalid params"},
	fault.Missing:        {mcp.CodeUnavailable, true, "%s cannot be started, because its command was not found"},
	fault.Spawn:          {mcp.CodeUnavailable, true, "%s could not be started"},
	fault.Dial:           {mcp.CodeUnavailable, true, "%s could not be reached"},
	fault.Broken:         {mcp.CodeLinkLost, true, "the connection to %s was lost"},
	fault.Exited:         {mcp.CodeLinkLost, true, "the process of %s ended"},
	fault.Wedged:         {mcp.CodeLinkLost, true, "%s stopped responding"},
	fault.SessionLost:    {mcp.CodeLinkLost, true, "%s has forgotten everline's session"},
	fault.SessionSuspect: {mcp.CodeLinkLost, true, "%s may have forgotten everline's session"},
	fault.Unauthorized:   {mcp.CodeLogin, true, "%s needs a login"},
	fault.Forbidden:      {mcp.CodeLogin, true, "%s does not allow this"},
	fault.RateLimited:    {mcp.CodeRateLimited, true, "%s takes no more requests for now"},
	fault.HTTPStatus:     {mcp.CodeBadPeer, true, "%s answered with an HTTP error"},
	fault.Protocol:       {mcp.CodeBadPeer, true, "%s broke the protocol"},
	fault.TooLarge:       {mcp.CodeTooLarge, true, "a message was larger than allowed for %s"},
	fault.NoVersion:      {mcp.CodeBadPeer, true, "%s speaks no protocol version that everline knows"},
	fault.Unsupported:    {mcp.CodeMethodNotFound, false, "the server does not offer this"},
	fault.RPC:            {mcp.CodeInternal, false, "the server answered with an error"},
	fault.Conflict:       {mcp.CodeConflict, true, "%s is not in a state for this"},
	fault.Closed:         {mcp.CodeShuttingDown, true, "everline is shutting down"},
}

// closedLink is the verdict on Closed where a server is meant, not everline.
var closedLink = verdict{mcp.CodeLinkLost, true, "the connection to %s was closed"}

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
	return m.failureAs(&c, verdicts[fault.Closed])
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
		return "Invalid params: " + f.Text()
	case fault.Unsupported:
		return "Method not found: the server does not offer " + m.Method
	default:
		return tell(f, v, m.Method)
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
		return "Invalid params: " + f.Text()
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
	cause := causeOf(f)
	if cause == "" {
		cause = strings.ReplaceAll(f.Kind.String(), "_", " ")
	}
	b = wire.AppendString(append(b, `,"cause":`...), cause)
	if f.RetryAfter > 0 {
		b = wire.AppendInt(append(b, `,"retryAfterMs":`...), f.RetryAfter.Milliseconds())
	}
	return append(b, '}')
}

// NoMethod answers a request for what nobody serves.
func (m *Message) NoMethod() Answer {
	return *m.Refusal(mcp.CodeMethodNotFound, "Method not found: "+m.Method, nil)
}
