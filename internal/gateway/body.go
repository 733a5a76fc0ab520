package gateway

import (
	"errors"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
	"github.com/everline/everline/internal/policy"
)

// typed refuses a POST that does not say that its body is JSON: a web page may
// send everything else, and a body of no type, without asking first.
func (g *Gateway) typed(w http.ResponseWriter, r *http.Request) bool {
	if ct := r.Header.Get("Content-Type"); ct != mcp.TypeJSON {
		if kind, _, err := mime.ParseMediaType(ct); err != nil || kind != mcp.TypeJSON {
			g.reject(w, http.StatusUnsupportedMediaType, mcp.CodeInvalidRequest, "Unsupported media type: send Content-Type: application/json")
			return false
		}
	}
	return true
}

var closes = []string{"close"}

// unread makes a request that is refused before its body was read the last one of
// its connection. Otherwise net/http would read the body before it answers, for as
// long as it takes to come.
func (g *Gateway) unread(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 || g.leaving() {
			w.Header()["Connection"] = closes
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(g.opts.ReadTimeout)) // a reader without deadlines is bounded by its server
		}
		next.ServeHTTP(w, r)
	})
}

// body reads the body of a POST, of limit bytes at most, or refuses the request.
// The caller releases the claim when the message has been served.
func (g *Gateway) body(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, *claim, bool) {
	if r.ContentLength > limit {
		g.tooLarge(w, r, limit)
		return nil, nil, false
	}
	var c *claim
	if r.ContentLength < 0 || r.ContentLength > bodyFree {
		c = &claim{budget: &g.shared.bodies}
	}
	body, err := readBody(http.MaxBytesReader(w, r.Body, limit), r.ContentLength, limit, c)
	c.read()
	if err == nil {
		if !g.leaving() {
			delete(w.Header(), "Connection")
		}
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // likewise
		}
		return body, c, true
	}
	c.release()
	switch {
	case errors.Is(err, errCrowded):
		g.busy(w, "Overloaded: too much is being sent at a time")
	case errors.As(err, new(*http.MaxBytesError)):
		g.tooLarge(w, r, limit)
	default:
		g.reject(w, http.StatusBadRequest, mcp.CodeParse, "Bad request: the body ended early")
	}
	return nil, nil, false
}

func (g *Gateway) tooLarge(w http.ResponseWriter, r *http.Request, limit int64) {
	most := g.maxBody()
	switch {
	case limit < most:
		g.noSession(w) // whatever it says
		return
	case limit < g.opts.MaxBody:
		may := g.backend.May()
		g.refused(r.Method, may, policy.ReasonBody, 0)
		refusalOf(r.Context()).because(may, policy.ReasonBody)
	}
	g.opts.Meter.Size.Add(1)
	g.reject(w, http.StatusRequestEntityTooLarge, mcp.CodeInvalidRequest, "The message is too large: at most "+strconv.FormatInt(limit, 10)+" bytes are taken")
}

// maxBody is how large a message may be.
func (g *Gateway) maxBody() int64 {
	if l := g.backend.May().Limits(); l != nil && l.MaxBody > 0 {
		return min(l.MaxBody, g.opts.MaxBody)
	}
	return g.opts.MaxBody
}

// busy turns a request away for now.
func (g *Gateway) busy(w http.ResponseWriter, text string) { g.crowded(w, &message.Message{}, text) }

// crowded is busy for a request whose id is known.
func (g *Gateway) crowded(w http.ResponseWriter, m *message.Message, text string) {
	a := m.Overloaded(text, soon)
	a.Status = http.StatusServiceUnavailable
	writeJSON(w, a)
}
