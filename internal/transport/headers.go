package transport

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/wire"
)

// Header fields of Streamable HTTP, in the form that net/http keys them by.
const (
	httpSession = "Mcp-Session-Id"
	httpVersion = "Mcp-Protocol-Version"
	httpMethod  = "Mcp-Method"
	httpName    = "Mcp-Name"
	httpEventID = "Last-Event-Id"
)

const (
	httpJSON   = "application/json"
	httpEvents = "text/event-stream"
)

// httpCoding is the coding of a body that nobody asked for, and nobody here
// can read; "" if there is none. What net/http has decoded does not name one.
func httpCoding(h http.Header) string {
	coding := strings.ToLower(strings.TrimSpace(strings.Join(h["Content-Encoding"], ", ")))
	switch coding {
	case "identity", "none", "utf-8", "utf8": // no codings, though some servers say so
		return ""
	default:
		return coding
	}
}

// httpIsEvents tells whether an answer is an event stream that can be read.
func httpIsEvents(h http.Header) bool { return httpMediaType(h) == httpEvents && httpCoding(h) == "" }

// The base64 sentinel of specification 2026-07-28, basic/transports/streamable-http,
// "Value Encoding".
const (
	httpSentinel    = "=?base64?"
	httpSentinelEnd = "?="
)

// httpFieldValue returns v as it may stand in an Mcp-Name or Mcp-Param-*
// field: as it is where that is safe, and in the base64 form where it is not
// or where a reader would take it for that form.
func httpFieldValue(v string) string {
	if httpPlain(v) {
		return v
	}
	return httpSentinel + base64.StdEncoding.EncodeToString([]byte(v)) + httpSentinelEnd
}

// httpPlain tells whether a header field carries v unchanged through every
// intermediary: visible ASCII, with spaces and tabs only inside.
func httpPlain(v string) bool {
	for i := range len(v) {
		blank := v[i] == ' ' || v[i] == '\t'
		if blank && (i == 0 || i == len(v)-1) {
			return false
		}
		if !blank && (v[i] < 0x21 || v[i] > 0x7e) {
			return false
		}
	}
	return !strings.HasPrefix(v, httpSentinel) || !strings.HasSuffix(v, httpSentinelEnd)
}

// httpIsToken tells whether s is a field name (RFC 9110 section 5.1).
func httpIsToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !alnum && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

// httpBaseHeader checks the configured headers and returns the fields that
// every request of a link carries.
func httpBaseHeader(configured map[string]string) (http.Header, *fault.Fault) {
	h := make(http.Header, len(configured)+4)
	for name, value := range configured {
		if !httpIsToken(name) {
			return nil, fault.New(fault.Invalid, "open", "header name "+quote(name)+" is not allowed in HTTP")
		}
		if problem := config.BadHeaderValue(value); problem != "" {
			return nil, fault.New(fault.Invalid, "open", "the value of header "+quote(name)+" has "+problem+" in it")
		}
		// Among them are those with which net/http would send a POST again on its
		// own when a connection breaks: a call could run twice.
		if !config.OwnHeader(name) {
			h.Set(name, value)
		}
	}
	if h.Get("User-Agent") == "" {
		h.Set("User-Agent", "everline")
	}
	return h, nil
}

func quote(s string) string { return `"` + s + `"` }

// httpPostHeader returns base with the fields of a POST.
func httpPostHeader(base http.Header) http.Header {
	h := base.Clone()
	h["Content-Type"] = []string{httpJSON}
	h["Accept"] = []string{httpJSON + ", " + httpEvents}
	return h
}

// httpModernHeader returns post with what revision 2026-07-28 mirrors from the
// body of r. The version is read from the frame itself, so that header and
// body cannot differ; agreed is used where the frame names none.
func httpModernHeader(post http.Header, r *Request, agreed string) (http.Header, *fault.Fault) {
	h := make(http.Header, len(post)+3+len(r.Header))
	for k, v := range post {
		h[k] = v
	}
	version := agreed
	if raw := wire.Get(r.Frame, "params", "_meta", "io.modelcontextprotocol/protocolVersion"); raw != nil {
		if text, ok := wire.Text(raw); ok && httpPlain(text) {
			version = text
		}
	}
	fields := make([]string, 0, 3+len(r.Header))
	add := func(key, value string) {
		fields = append(fields, value)
		h[key] = fields[len(fields)-1:]
	}
	if version != "" {
		add(httpVersion, version)
	}
	if r.Method != "" {
		add(httpMethod, httpFieldValue(r.Method))
	}
	if r.Name != "" {
		add(httpName, httpFieldValue(r.Name))
	}
	for _, field := range r.Header {
		if !httpIsToken(field[0]) {
			return nil, &fault.Fault{
				Kind: fault.Invalid, Op: r.Method, Outcome: fault.NotSent,
				Err: errors.New("header name " + quote(field[0]) + " is not allowed in HTTP"),
			}
		}
		add(http.CanonicalHeaderKey(field[0]), httpFieldValue(field[1]))
	}
	return h, nil
}
