package http

import (
	"errors"
	"net/http"
	"strings"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/wire"
)

// codingOf is the coding of a body that nobody asked for, and nobody here
// can read; "" if there is none. What net/http has decoded does not name one.
func codingOf(h http.Header) string {
	coding := strings.ToLower(strings.TrimSpace(strings.Join(h["Content-Encoding"], ", ")))
	switch coding {
	case "identity", "none", "utf-8", "utf8": // no codings, though some servers say so
		return ""
	default:
		return coding
	}
}

// isEvents reports whether an answer is an event stream that can be read.
func isEvents(h http.Header) bool {
	return mediaType(h) == mcp.TypeEvents && codingOf(h) == ""
}

// baseHeader checks the configured headers and returns the fields that
// every request of a link carries.
func baseHeader(configured map[string]string) (http.Header, *fault.Fault) {
	h := make(http.Header, len(configured)+4)
	for name, value := range configured {
		if !mcp.IsHeaderName(name) {
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

// postHeader returns base with the fields of a POST.
func postHeader(base http.Header) http.Header {
	h := base.Clone()
	h["Content-Type"] = []string{mcp.TypeJSON}
	h["Accept"] = []string{mcp.AcceptBoth}
	return h
}

// withFields returns a header with the fields that go with one message alone. It does
// not change h.
func withFields(h http.Header, fields [][2]string) http.Header {
	if len(fields) == 0 {
		return h
	}
	more := make(http.Header, len(h)+len(fields))
	for k, v := range h {
		more[k] = v
	}
	for _, f := range fields {
		more[http.CanonicalHeaderKey(f[0])] = []string{f[1]}
	}
	return more
}

// modernHeader returns post with what revision 2026-07-28 mirrors from the
// body of r. The version is read from the frame itself, so that header and
// body cannot differ; agreed is used where the frame names none.
func modernHeader(post http.Header, r *transport.Request, agreed string) (http.Header, *fault.Fault) {
	h := make(http.Header, len(post)+3+len(r.Header))
	for k, v := range post {
		h[k] = v
	}
	version := agreed
	if raw := wire.Get(r.Frame, "params", "_meta", mcp.MetaVersion); raw != nil {
		if text, ok := wire.Text(raw); ok && mcp.IsPlainHeader(text) {
			version = text
		}
	}
	fields := make([]string, 0, 3+len(r.Header))
	add := func(key, value string) {
		fields = append(fields, value)
		h[key] = fields[len(fields)-1:]
	}
	if version != "" {
		add(mcp.HeaderVersion, version)
	}
	if r.Method != "" {
		add(mcp.HeaderMethod, mcp.EncodeHeader(r.Method))
	}
	if r.Name != "" {
		add(mcp.HeaderName, mcp.EncodeHeader(r.Name))
	}
	for _, field := range r.Header {
		if !mcp.IsHeaderName(field[0]) {
			return nil, &fault.Fault{
				Kind: fault.Invalid, Op: r.Method, Outcome: fault.NotSent,
				Err: errors.New("header name " + quote(field[0]) + " is not allowed in HTTP"),
			}
		}
		add(http.CanonicalHeaderKey(field[0]), mcp.EncodeHeader(field[1]))
	}
	return h, nil
}
