package gateway

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
)

// Sizes of bodies, in bytes.
const (
	bodyFree   = 16 << 10  // of each one: as much as a connection costs anyway
	bodySmall  = 64 << 10  // one that is larger leaves a quarter of the budget to those that are not
	bodyBudget = 256 << 20 // of all together
	bodyGrowth = 4         // how many times more than what has arrived is claimed for the rest

	// sessionless is how large a message may be that names neither a session nor
	// the revision that has none: initialize is the only one.
	sessionless = 1 << 20
)

// A budget bounds the memory of the bodies that are being read or served, over
// all connections. Nothing waits for it.
type budget struct {
	limit int64
	used  atomic.Int64
}

// A claim is what one body holds of the budget. One that is nil holds nothing.
type claim struct {
	of     *budget
	held   int64
	owners atomic.Int32 // besides the first
}

// grow makes room for n bytes beside what is held already.
func (c *claim) grow(n int64) bool {
	limit := c.of.limit
	if n > bodySmall {
		limit -= limit / 4
	}
	c.held += n
	if c.of.used.Add(n) <= limit {
		return true
	}
	c.shrink(n)
	return false
}

// shrink gives n bytes back.
func (c *claim) shrink(n int64) {
	c.held -= n
	c.of.used.Add(-n)
}

// keep makes the caller another owner: of a message that is served beyond its
// exchange.
func (c *claim) keep() {
	if c != nil {
		c.owners.Add(1)
	}
}

// release is the end of one owner. The last one gives all back.
func (c *claim) release() {
	if c != nil && c.owners.Add(-1) < 0 {
		c.shrink(c.held)
	}
}

// errCrowded is why a body is not read to its end.
var errCrowded = errors.New("no room for the body")

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
		if r.ContentLength != 0 {
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
		g.tooLarge(w, limit)
		return nil, nil, false
	}
	var c *claim
	if r.ContentLength < 0 || r.ContentLength > bodyFree {
		c = &claim{of: &g.shared.bodies}
	}
	body, err := readBody(http.MaxBytesReader(w, r.Body, limit), r.ContentLength, limit, c)
	if err == nil {
		delete(w.Header(), "Connection")
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
		g.tooLarge(w, limit)
	default:
		g.reject(w, http.StatusBadRequest, mcp.CodeParse, "Bad request: the body ended early")
	}
	return nil, nil, false
}

func (g *Gateway) tooLarge(w http.ResponseWriter, limit int64) {
	if limit < g.opts.MaxBody {
		g.noSession(w) // whatever it says
		return
	}
	g.reject(w, http.StatusRequestEntityTooLarge, mcp.CodeInvalidRequest, "The message is too large")
}

// retryAfter is after how many seconds a client that was turned away may come again.
const retryAfter = 1

// busy turns a request away for now.
func (g *Gateway) busy(w http.ResponseWriter, text string) { g.crowded(w, &message.Message{}, text) }

// crowded is busy for a request whose id is known.
func (g *Gateway) crowded(w http.ResponseWriter, m *message.Message, text string) {
	a := m.Refusal(mcp.CodeOverloaded, text, nil)
	a.Status = http.StatusServiceUnavailable
	w.Header()["Retry-After"] = []string{strconv.Itoa(retryAfter)}
	writeJSON(w, a)
}

// readBody reads a body of the declared length, -1 if none was declared; r ends
// at the limit. The buffer grows with what really arrives, and the claim with it.
// A body of at most bodyFree needs none.
func readBody(r io.Reader, length, limit int64, c *claim) ([]byte, error) {
	if length >= 0 && length <= bodyFree {
		buf := make([]byte, length)
		_, err := io.ReadFull(r, buf)
		return buf, err
	}
	most := length
	if length < 0 {
		most = limit + 1 // so that a full buffer is not the end
	}
	buf := make([]byte, 0, bodyFree)
	for {
		n, err := io.ReadFull(r, buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) == length:
			return buf, nil
		case err == nil: // the buffer is full
		case length < 0 && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)):
			return buf, nil
		case errors.Is(err, io.EOF):
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
		old := int64(cap(buf))
		size := min(old*bodyGrowth, most)
		if !c.grow(size) {
			return nil, errCrowded
		}
		buf = append(make([]byte, 0, size), buf...)
		if old > bodyFree {
			c.shrink(old)
		}
	}
}
