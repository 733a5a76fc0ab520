package http

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/transport"
)

// roundTrip is the round tripper behind the injector.
func (k *core) roundTrip(req *http.Request) (*http.Response, error) {
	if k.forgotten.Load() && k.namesSession(req) {
		return forgotten(req), nil
	}
	t := k.opts.Injector.Now()
	if t == nil || req.Method != http.MethodPost || k.sessionInURL { // HTTP+SSE answers elsewhere
		return k.rt.RoundTrip(req)
	}
	resp, err := k.rt.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	switch t.Kind {
	case transport.BreakSlow:
		late := time.NewTimer(t.Delay)
		defer late.Stop()
		select {
		case <-late.C:
		case <-req.Context().Done():
			_ = resp.Body.Close()
			return nil, req.Context().Err()
		}
	case transport.BreakGarbage:
		addGarbage(resp)
	default:
	}
	return resp, nil
}

// namesSession reports whether a server would look a request's session up.
func (k *core) namesSession(req *http.Request) bool {
	return req.Header[mcp.HeaderSession] != nil || k.sessionInURL && req.Method == http.MethodPost
}

// forgotten is what servers answer to a session that they do not know.
func forgotten(req *http.Request) *http.Response {
	const body = `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`
	return &http.Response{
		Status: "404 Not Found", StatusCode: http.StatusNotFound, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {mcp.TypeJSON}}, Body: io.NopCloser(strings.NewReader(body)),
		ContentLength: int64(len(body)), Request: req,
	}
}

// spoil puts garbage ahead of a body: an event of its own on a stream.
func addGarbage(resp *http.Response) {
	head := transport.Garbage
	if mediaType(resp.Header) == mcp.TypeEvents {
		head = string(mcp.AppendEvent(nil, []byte(transport.Garbage)))
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(strings.NewReader(head), resp.Body), resp.Body}
	resp.ContentLength = -1
}

// errReset is what a connection says that was cut.
var errReset = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}

// Read implements net.Conn: nothing comes through while the server hangs.
func (c *netConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		return n, c.failed(err)
	}
	if t := c.set.injector.Lasting(transport.BreakHang); t != nil {
		select {
		case <-t.Over():
		case <-c.gone:
			return 0, c.failed(net.ErrClosed)
		}
	}
	return n, nil
}

// Write implements net.Conn.
func (c *netConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		err = c.failed(err)
	}
	return n, err
}

// failed is err, or what it would be if somebody else had cut the connection.
func (c *netConn) failed(err error) error {
	if c.cut.Load() {
		return errReset
	}
	return err
}

// cutAll cuts every connection, as the end of the server's process does.
func (s *conns) cutAll() bool {
	s.mu.Lock()
	open := make([]*netConn, 0, len(s.open))
	for c := range s.open {
		open = append(open, c)
	}
	s.mu.Unlock()
	for _, c := range open {
		c.cut.Store(true)
		_ = c.Close()
	}
	return len(open) > 0
}

// An eventBody is the body of an event stream that the injector can cut.
// The zero value is no stream.
type eventBody struct {
	body io.ReadCloser
	open atomic.Bool // body is set
	cut  atomic.Bool
}

// of makes it the body of an answer.
func (b *eventBody) wrap(body io.ReadCloser) io.Reader {
	b.body = body
	b.open.Store(true)
	return b
}

// Read implements io.Reader.
func (b *eventBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if err != nil && b.cut.Load() {
		err = io.ErrUnexpectedEOF // as from a proxy that cuts long streams
	}
	return n, err
}

// cutStream cuts the stream. It is false if there is none.
func (b *eventBody) cutStream() bool {
	if b == nil || !b.open.Load() {
		return false
	}
	b.cut.Store(true)
	_ = b.body.Close()
	return true
}

// cutStreams cuts every event stream that is open.
func (k *core) cutStreams() bool {
	k.mu.Lock()
	streams := []*eventBody{k.standing.Load()}
	for ex := range k.exchanges {
		streams = append(streams, &ex.events)
	}
	k.mu.Unlock()
	hit := false
	for _, s := range streams {
		hit = s.cutStream() || hit
	}
	return hit
}

func (k *core) Inject(b transport.Breakage) (observed <-chan struct{}, hit bool) {
	if k.sessionInURL {
		observed = k.done // its one stream is the link
	}
	switch b {
	case transport.BreakKill:
		return observed, k.conns.cutAll()
	case transport.BreakForget:
		k.forgotten.Store(true)
		return nil, true // by the next request
	case transport.BreakDrop:
		return observed, k.cutStreams()
	default:
		return nil, false
	}
}

// errForeign: the injector reaches no connection here.
var errForeign = errors.New("the connections to this server are not everline's own")

func (k *core) Fits(b transport.Breakage) error {
	if (b == transport.BreakKill || b == transport.BreakHang) && k.conns == nil {
		return errForeign
	}
	return nil
}

func (c *conn) Fits(b transport.Breakage) error {
	if s := c.state.Load(); b == transport.BreakForget && s.session == "" {
		if s.modern {
			return fmt.Errorf("%w, and this one speaks a version of the protocol that has none", transport.ErrNoSessions)
		}
		return fmt.Errorf("%w, and this one keeps none", transport.ErrNoSessions)
	}
	return c.core.Fits(b)
}
