package mcp

import (
	"encoding/base64"
	"strings"
)

// Header fields of Streamable HTTP, in the form that net/http keys them by.
const (
	HeaderSession     = "Mcp-Session-Id"
	HeaderVersion     = "Mcp-Protocol-Version"
	HeaderMethod      = "Mcp-Method"
	HeaderName        = "Mcp-Name"
	HeaderParamPrefix = "Mcp-Param-"
	HeaderLastEventID = "Last-Event-Id"

	// HeaderNamedSession is MetaSession for a client that does not want to change
	// a body, as a bridge: it names the session in each request, and ends it with a
	// DELETE.
	HeaderNamedSession = "Everline-Session"
)

// Media types.
const (
	TypeJSON   = "application/json"
	TypeEvents = "text/event-stream"

	// AcceptBoth is the Accept of a POST.
	AcceptBoth = TypeJSON + ", " + TypeEvents
)

// The form of a value that cannot stand in a field as it is (2026-07-28
// basic/transports/streamable-http, Value Encoding).
const (
	base64Open  = "=?base64?"
	base64Close = "?="
)

// EncodeHeader returns v as it stands in an Mcp-Name or Mcp-Param-* field.
func EncodeHeader(v string) string {
	if IsPlainHeader(v) {
		return v
	}
	return base64Open + base64.StdEncoding.EncodeToString([]byte(v)) + base64Close
}

// DecodeHeader returns the value that a field carries; false if it has
// characters that no field may have, or broken base64.
func DecodeHeader(v string) (string, bool) {
	if !isFieldValue(v) {
		return "", false
	}
	inner, ok := strings.CutPrefix(v, base64Open)
	if !ok {
		return v, true
	}
	inner, ok = strings.CutSuffix(inner, base64Close)
	if !ok {
		return v, true
	}
	b, err := base64.StdEncoding.DecodeString(inner)
	return string(b), err == nil
}

// IsPlainHeader reports whether a field carries v unchanged through every
// intermediary, and no reader takes it for the base64 form: visible ASCII, with
// spaces and tabs only inside.
func IsPlainHeader(v string) bool {
	return isFieldValue(v) && strings.Trim(v, " \t") == v &&
		!(strings.HasPrefix(v, base64Open) && strings.HasSuffix(v, base64Close))
}

// isFieldValue reports whether v has only characters that a field may have (RFC
// 9110 section 5.5).
func isFieldValue(v string) bool {
	for i := range len(v) {
		if c := v[i]; c != '\t' && (c < 0x20 || c > 0x7e) {
			return false
		}
	}
	return true
}

// IsHeaderName reports whether s is a field name, a token (RFC 9110 section 5.1).
func IsHeaderName(s string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !alnum && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}
