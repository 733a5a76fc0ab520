package http

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/wire"
)

// maxRetryAfter caps what a server may ask for.
const maxRetryAfter = 5 * time.Minute

// A Challenge is the WWW-Authenticate fields of a 401 or 403. It is in the
// chain of the Fault's Err, for whoever gets tokens.
type Challenge struct {
	Fields []string
	Text   string // the refusal in words
}

func (c *Challenge) Error() string { return c.Text }

// reply is all that is known when a server has answered a request with
// something else than its result.
type reply struct {
	op      string
	id      int64 // of our request; 0 for a notification or an answer
	status  int
	header  http.Header
	body    []byte    // as much as was read
	session bool      // the request carried a session id that used to work
	modern  bool      // the request was of revision 2026-07-28
	broken  error     // why the body of an answer cannot be read; nil if it can
	now     time.Time // for a Retry-After that is a date
}

// classify is the one place that says what a refusal means: the server's own
// answer to our request, or a fault with what it proves. It goes by status,
// era, session and whose id the body carries, never by text.
func (a *reply) classify() (wire.Message, *fault.Fault) {
	msg, ours := a.rpcError()
	after, hasAfter := a.retryAfter()
	challenge := a.header["Www-Authenticate"]
	switch {
	case a.status == http.StatusUnauthorized && len(challenge) > 0:
		return a.fault(fault.Unauthorized, fault.NotSent, msg, challenge)
	case a.status == http.StatusForbidden && (len(challenge) > 0 || !ours):
		return a.fault(fault.Forbidden, fault.NotSent, msg, challenge)
	case a.slowDown(hasAfter, ours):
		_, f := a.fault(fault.RateLimited, fault.NotSent, msg, nil)
		f.RetryAfter = after
		return wire.Message{}, f
	case a.status == http.StatusNotFound && a.session && a.op == mcp.Ping && !(ours && a.liveCode(msg)):
		return a.fault(fault.SessionSuspect, fault.Unknown, msg, nil) // some know the session and no ping
	case a.status == http.StatusNotFound && a.session && !(ours && a.liveCode(msg)):
		return a.fault(fault.SessionLost, fault.NotSent, msg, nil)
	case ours:
		return msg, nil
	case a.status == http.StatusRequestEntityTooLarge:
		return a.fault(fault.TooLarge, fault.NotSent, msg, nil)
	case a.broken != nil:
		return a.fault(fault.Protocol, fault.Unknown, msg, nil)
	case a.session && a.suspicious(), a.modern && a.otherEra():
		return a.fault(fault.SessionSuspect, fault.Unknown, msg, nil)
	case a.status >= 200 && a.status <= 299:
		return a.fault(fault.Protocol, fault.Unknown, msg, nil)
	default:
		return a.fault(fault.HTTPStatus, a.refusalProof(), msg, nil)
	}
}

// slowDown: 429, or 503 with Retry-After. A 429 that answers our very request
// and names no time is the server's own word about the call.
func (a *reply) slowDown(hasAfter, ours bool) bool {
	switch a.status {
	case http.StatusTooManyRequests:
		return hasAfter || !ours
	case http.StatusServiceUnavailable:
		return hasAfter
	default:
		return false
	}
}

// suspicious statuses are what servers say, besides 404, to a session id that
// they do not know. They say it for other reasons too: a probe decides, and if
// the session turns out to be gone the request was refused for that.
func (a *reply) suspicious() bool {
	switch a.status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusGone, http.StatusServiceUnavailable:
		return true
	default: // 200 with a JSON-RPC error that is not for our id
		return a.status == http.StatusOK && wire.Get(a.body, "error") != nil
	}
}

// otherEra: a modern server answers a request that it refuses with the
// request's id, or with an error of its era. One that says 400 or 404 in
// another way may have been replaced by a legacy server, to which a request
// without a session is nothing; a probe decides.
func (a *reply) otherEra() bool {
	return a.status == http.StatusBadRequest || a.status == http.StatusNotFound
}

// refusalProof: some statuses are given by definition before a request is
// looked at.
func (a *reply) refusalProof() fault.Outcome {
	switch a.status {
	case http.StatusUnauthorized, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
		http.StatusUnsupportedMediaType, http.StatusMisdirectedRequest:
		return fault.NotSent
	default:
		return fault.Unknown
	}
}

// liveCode tells an error that only a live session can give, for our own id.
func (a *reply) liveCode(msg wire.Message) bool {
	switch code, _ := wire.DecodeError(msg.Error); code {
	case mcp.CodeMethodNotFound, mcp.CodeInvalidParams, mcp.CodeInternal, mcp.CodeResourceNotFound:
		return true
	default:
		return false
	}
}

// rpcError finds a JSON-RPC error in the body, and reports whether it answers
// our request: it carries our id, or none where the era and the code leave no
// doubt that this request is meant.
func (a *reply) rpcError() (wire.Message, bool) {
	parts, batch := wire.Batch(a.body)
	if !batch {
		parts = slices.Values([][]byte{a.body})
	}
	var found wire.Message
	for part := range parts {
		msg, err := wire.Parse(part)
		if err != nil || msg.Error == nil || msg.Method != "" {
			continue
		}
		found = msg
		if a.answers(&msg) {
			return msg, true
		}
	}
	return found, false
}

func (a *reply) answers(msg *wire.Message) bool {
	if a.id == 0 {
		return false
	}
	if id, ok := wire.ParseID(msg.ID); ok {
		return id == a.id
	}
	if !noID(msg.ID) {
		return false
	}
	if a.status == http.StatusOK && !a.session {
		return true // a POST carries one request: an error without an id is about it
	}
	if !a.modern {
		return false
	}
	switch code, _ := wire.DecodeError(msg.Error); code {
	case mcp.CodeHeaderMismatch, mcp.CodeMissingCapability, mcp.CodeUnsupportedVersion:
		return true
	case mcp.CodeMethodNotFound:
		return a.status == http.StatusNotFound
	default:
		return false
	}
}

func noID(id []byte) bool { return id == nil || wire.IsNull(id) }

// fault words the refusal.
func (a *reply) fault(kind fault.Kind, out fault.Outcome, msg wire.Message, challenge []string) (wire.Message, *fault.Fault) {
	text := a.text(msg)
	f := &fault.Fault{Kind: kind, Op: a.op, Outcome: out, Status: a.status, Err: errors.New(text)}
	if len(challenge) > 0 {
		f.Err = &Challenge{Fields: challenge, Text: text + "; it asks for " + transport.BodyText([]byte(strings.Join(challenge, ", ")))}
	}
	switch {
	case a.status == http.StatusUnauthorized && kind == fault.HTTPStatus:
		f.Remedy = "check the token or the headers that are configured for this server"
	case a.status >= 300 && a.status <= 399:
		f.Remedy = "configure the URL that the server redirects to, if it is the right one"
	case msg.Error == nil && codingOf(a.header) != "":
		f.Remedy = "let the server, or the proxy before it, answer without Content-Encoding"
	}
	return wire.Message{}, f
}

// text says what came, for people: status, and the server's own words.
func (a *reply) text(msg wire.Message) string {
	head := "HTTP " + strconv.Itoa(a.status)
	if name := http.StatusText(a.status); name != "" {
		head += " " + name
	}
	switch media := mediaType(a.header); {
	case a.broken != nil:
		return head + ": " + transport.UnreadableText(a.broken).Error() + ": " + transport.BodyText(a.body)
	case msg.Error != nil:
		code, words := wire.DecodeError(msg.Error)
		if code != 0 && words != "" {
			return head + ": " + words + " (" + strconv.FormatInt(code, 10) + ")"
		}
		return strings.TrimSuffix(head+": "+cmp.Or(words, transport.BodyText(a.body)), ": ") // an error of its own kind, as of OAuth
	case codingOf(a.header) != "":
		return head + " with a body in the coding " + strconv.QuoteToASCII(codingOf(a.header)) + " (Content-Encoding), which everline did not ask for"
	case a.status >= 300 && a.status <= 399:
		return head + ": redirected to " + quote(shownURL(a.header.Get("Location")))
	case a.status >= 200 && a.status <= 299 && media == "":
		return head + " without an answer to the request"
	case a.status >= 200 && a.status <= 299 && media != mcp.TypeJSON && media != mcp.TypeEvents:
		return head + " with " + plainASCII(media) + " where " + mcp.TypeJSON + " or " + mcp.TypeEvents + " is due"
	case a.status >= 200 && a.status <= 299:
		return strings.TrimSuffix(head+" without an answer to the request: "+transport.BodyText(a.body), ": ")
	case strings.HasPrefix(media, "text/html"):
		return head + ", with an HTML page"
	default:
		return strings.TrimSuffix(head+": "+transport.BodyText(a.body), ": ")
	}
}

// plainASCII is the text of a header field, in which any byte may stand.
func plainASCII(s string) string {
	text := strconv.QuoteToASCII(s)
	return text[1 : len(text)-1]
}

// retryAfter reads the field's two forms, seconds and a date (RFC 9110
// section 10.2.3), capped. What cannot be read counts as absent.
func (a *reply) retryAfter() (time.Duration, bool) {
	return retryAfter(a.header, a.now)
}

func retryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(v, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter), true
	}
	date, err := http.ParseTime(v)
	if err != nil {
		return 0, false
	}
	return min(max(date.Sub(now), 0), maxRetryAfter), true
}

// mediaType is the type without parameters, in lower case.
func mediaType(h http.Header) string {
	v := h.Get("Content-Type")
	if v == mcp.TypeJSON || v == mcp.TypeEvents {
		return v
	}
	v, _, _ = strings.Cut(v, ";")
	return strings.ToLower(strings.TrimSpace(v))
}
