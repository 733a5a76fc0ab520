package transport

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/everline/everline/internal/mcp"
)

// roundTrip is the round tripper behind the fault layer.
func (k *httpCore) roundTrip(req *http.Request) (*http.Response, error) {
	if k.forgotten.Load() && k.namesSession(req) {
		return httpForgotten(req), nil
	}
	t := k.opts.Faults.now()
	if t == nil || req.Method != http.MethodPost || k.sessionInURL { // HTTP+SSE answers elsewhere
		return k.rt.RoundTrip(req)
	}
	resp, err := k.rt.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	switch t.kind {
	case BreakSlow:
		late := time.NewTimer(t.delay)
		defer late.Stop()
		select {
		case <-late.C:
		case <-req.Context().Done():
			_ = resp.Body.Close()
			return nil, req.Context().Err()
		}
	case BreakGarbage:
		httpSpoil(resp)
	default:
	}
	return resp, nil
}

// namesSession tells whether a server would look a request's session up.
func (k *httpCore) namesSession(req *http.Request) bool {
	return req.Header[mcp.HeaderSession] != nil || k.sessionInURL && req.Method == http.MethodPost
}

// httpForgotten is what servers answer to a session that they do not know.
func httpForgotten(req *http.Request) *http.Response {
	const body = `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`
	return &http.Response{
		Status: "404 Not Found", StatusCode: http.StatusNotFound, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {mcp.TypeJSON}}, Body: io.NopCloser(strings.NewReader(body)),
		ContentLength: int64(len(body)), Request: req,
	}
}

// httpSpoil puts garbage ahead of a body: an event of its own on a stream.
func httpSpoil(resp *http.Response) {
	head := garbage
	if httpMediaType(resp.Header) == mcp.TypeEvents {
		head = string(mcp.AppendEvent(nil, []byte(garbage)))
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
func (c *httpNetConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		return n, c.failed(err)
	}
	if t := c.set.faults.lasting(BreakHang); t != nil {
		select {
		case <-t.over:
		case <-c.gone:
			return 0, c.failed(net.ErrClosed)
		}
	}
	return n, nil
}

// Write implements net.Conn.
func (c *httpNetConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		err = c.failed(err)
	}
	return n, err
}

// failed is err, or what it would be if somebody else had cut the connection.
func (c *httpNetConn) failed(err error) error {
	if c.cut.Load() {
		return errReset
	}
	return err
}

// cutAll cuts every connection, as the end of the server's process does.
func (s *httpConns) cutAll() bool {
	s.mu.Lock()
	open := make([]*httpNetConn, 0, len(s.open))
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

// A httpEventBody is the body of an event stream that the fault layer can cut.
// The zero value is no stream.
type httpEventBody struct {
	body io.ReadCloser
	open atomic.Bool // body is set
	cut  atomic.Bool
}

// of makes it the body of an answer.
func (b *httpEventBody) of(body io.ReadCloser) io.Reader {
	b.body = body
	b.open.Store(true)
	return b
}

// Read implements io.Reader.
func (b *httpEventBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if err != nil && b.cut.Load() {
		err = io.ErrUnexpectedEOF // as from a proxy that cuts long streams
	}
	return n, err
}

// strike cuts the stream. It is false if there is none.
func (b *httpEventBody) strike() bool {
	if b == nil || !b.open.Load() {
		return false
	}
	b.cut.Store(true)
	_ = b.body.Close()
	return true
}

// cutStreams cuts every event stream that is open.
func (k *httpCore) cutStreams() bool {
	k.mu.Lock()
	streams := []*httpEventBody{k.standing.Load()}
	for fl := range k.flights {
		streams = append(streams, &fl.events)
	}
	k.mu.Unlock()
	hit := false
	for _, s := range streams {
		hit = s.strike() || hit
	}
	return hit
}

func (k *httpCore) strike(b Breakage) (felt <-chan struct{}, hit bool) {
	if k.sessionInURL {
		felt = k.done // its one stream is the link
	}
	switch b {
	case BreakKill:
		return felt, k.conns.cutAll()
	case BreakForget:
		k.forgotten.Store(true)
		return nil, true // by the next request
	case BreakDrop:
		return felt, k.cutStreams()
	default:
		return nil, false
	}
}

func (k *httpCore) fits(b Breakage) error {
	if (b == BreakKill || b == BreakHang) && k.conns == nil {
		return errForeign
	}
	return nil
}

func (c *httpConn) fits(b Breakage) error {
	if s := c.state.Load(); b == BreakForget && s.session == "" {
		if s.modern {
			return fmt.Errorf("%w, and this one speaks a version of the protocol that has none", errNoSessions)
		}
		return fmt.Errorf("%w, and this one keeps none", errNoSessions)
	}
	return c.httpCore.fits(b)
}
