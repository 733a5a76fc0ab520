package http

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/auth"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// do sends a request with the credential of the link, if it has one, follows
// redirects and keeps cookies. ex is the exchange of a POST. A request that is
// refused for its credential is sent once more with another one: it was not
// executed.
func (k *core) do(req *http.Request, ex *exchange) (*http.Response, *http.Request, error) {
	if k.auth == nil || !sameOrigin(req.URL, k.url) { // a configured message URL may be anybody's
		return k.follow(req, ex)
	}
	var tried struct{ token, scope bool }
	header := req.Header // cookies are added to a copy, for each sending anew
	for {
		ex.waits(true)
		ticket, f := k.auth.Header(req.Context())
		if f != nil {
			return nil, req, f
		}
		ex.waits(false)
		resp, last, err := k.follow(showing(req, ticket), ex)
		if err != nil || !k.judgesCredential(req, resp) {
			if err == nil && resp.StatusCode/100 == 2 {
				ticket.Accepted()
			}
			return resp, last, err
		}
		again := &tried.token
		if resp.StatusCode == http.StatusForbidden {
			again = &tried.scope
		}
		if *again { // with what was got for it: that is final for this request
			return resp, last, nil
		}
		*again = true
		ex.waits(true)
		f = k.auth.Refused(req.Context(), ticket, resp.StatusCode, resp.Header["Www-Authenticate"])
		if f != nil && f.Kind == fault.Forbidden && f.Remedy == "" { // no matter of credentials
			return resp, last, nil
		}
		said := refusalWords(resp)
		if f != nil {
			refused := *f
			refused.Status = resp.StatusCode
			if errors.Is(f, auth.ErrNoLogin) { // its own words are all that there is
				refused.Err = fmt.Errorf("%w (%s)", f.Cause(), said)
			}
			return nil, last, &refused
		}
		req = anew(req, header, ex)
	}
}

// waits notes whether the request waits for a token.
func (ex *exchange) waits(yes bool) {
	if ex != nil {
		ex.token.Store(yes)
	}
}

// agreed tells the credential what the server speaks.
func (k *core) agreed(version string) {
	if k.auth != nil {
		k.auth.Agreed(version)
	}
}

// refusalWords reads what a server says beside its refusal, and closes the answer.
func refusalWords(resp *http.Response) string {
	patience := time.AfterFunc(errBodyWait, func() { _ = resp.Body.Close() })
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrBody)) // what came is shown
	patience.Stop()
	_ = resp.Body.Close()
	r := reply{status: resp.StatusCode, header: resp.Header, body: body, now: time.Now()}
	_, f := r.fault(fault.Unauthorized, fault.NotSent, wire.Message{}, resp.Header["Www-Authenticate"])
	return f.Reason()
}

// showing returns the request with a ticket in its header, which is copied: that
// of the link is never changed.
func showing(req *http.Request, t auth.Ticket) *http.Request {
	if t.Value == "" {
		return req
	}
	shown := *req
	shown.Header = make(http.Header, len(req.Header)+1)
	for name, values := range req.Header {
		shown.Header[name] = values
	}
	shown.Header["Authorization"] = []string{t.Value}
	return &shown
}

// anew returns the request, with its own header, as it may be sent once more. Its
// body is not asked for in the usual way: over HTTP/2 the first may be written to
// its end at this very moment, and that would look like a request that was not
// refused.
func anew(req *http.Request, header http.Header, ex *exchange) *http.Request {
	next := *req
	next.Header = header
	if ex != nil {
		ex.wrote.Store(false) // a refusal proves that it was not executed
		if ex.frame != nil {
			next.Body = io.NopCloser(bytes.NewReader(ex.frame))
		}
	}
	return &next
}

// judgesCredential tells whether an answer is about the credential. A 401 without
// a challenge may mean that the session is not known.
func (k *core) judgesCredential(req *http.Request, resp *http.Response) bool {
	challenged := len(resp.Header["Www-Authenticate"]) > 0
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		session := len(req.Header[mcp.HeaderSession]) > 0 || k.sessionInURL && req.Method == http.MethodPost
		return challenged || !session
	case http.StatusForbidden:
		return challenged
	default:
		return false
	}
}
