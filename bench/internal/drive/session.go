// Package drive is the client of the measurements: sessions that cost the same,
// and little, whatever they are pointed at, and a load of many of them. It is
// not a client for anything else: it speaks one protocol version and takes the
// answers of one request at a time.
package drive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/everline/everline/internal/wire"
)

const (
	version = "2025-06-18"
	hello   = `{"protocolVersion":"` + version + `","capabilities":{},"clientInfo":{"name":"everline-bench","version":"1"}}`
)

// ErrGone says that the other side does not know the session any more: a
// client opens a new one then.
var ErrGone = errors.New("the session is gone")

// A Session is one client. It is used by one goroutine at a time, but for
// stdio, which is shared.
type Session interface {
	// Call sends one request and returns the result, which is valid until the
	// next Call.
	Call(ctx context.Context, method string, params []byte) ([]byte, error)
	Close()
}

// An RPCError is an error that the other side answered.
type RPCError struct {
	Code    int64
	Message string
}

func (e *RPCError) Error() string { return fmt.Sprintf("error %d: %s", e.Code, e.Message) }

// NewHTTP makes a client that opens as many connections as it is asked to.
func NewHTTP() *http.Client {
	return &http.Client{Transport: &http.Transport{
		MaxIdleConns: 0, MaxIdleConnsPerHost: 20_000, IdleConnTimeout: 5 * time.Minute, DisableCompression: true,
		WriteBufferSize: 16 << 10, ReadBufferSize: 16 << 10,
	}}
}

type httpSession struct {
	url  string
	http *http.Client
	id   string
	next int64
	out  []byte
	in   bytes.Buffer
}

// Open opens a session over Streamable HTTP.
func Open(ctx context.Context, c *http.Client, url string) (Session, error) {
	s := &httpSession{url: url, http: c}
	if _, err := s.Call(ctx, "initialize", []byte(hello)); err != nil {
		return nil, err
	}
	frame := wire.AppendNotification(nil, "notifications/initialized", nil)
	resp, err := s.post(ctx, frame)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return s, err
}

func (s *httpSession) request(ctx context.Context, method string, body io.Reader) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, s.url, body)
	if err != nil {
		return nil, err
	}
	if s.id != "" {
		r.Header["Mcp-Session-Id"] = []string{s.id}
		r.Header["Mcp-Protocol-Version"] = []string{version}
	}
	return r, nil
}

func (s *httpSession) post(ctx context.Context, frame []byte) (*http.Response, error) {
	r, err := s.request(ctx, http.MethodPost, bytes.NewReader(frame))
	if err != nil {
		return nil, err
	}
	r.Header["Content-Type"] = []string{"application/json"}
	r.Header["Accept"] = []string{"application/json, text/event-stream"}
	resp, err := s.http.Do(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 200)) // the status says enough
	if resp.StatusCode == http.StatusNotFound && s.id != "" {
		return nil, fmt.Errorf("%w: %s", ErrGone, bytes.TrimSpace(text))
	}
	return nil, fmt.Errorf("HTTP %d: %s", resp.StatusCode, bytes.TrimSpace(text))
}

func (s *httpSession) Call(ctx context.Context, method string, params []byte) ([]byte, error) {
	s.next++
	// The frame may not be used again before the transport is done with it,
	// which it may not be when an early answer comes.
	s.out = wire.AppendRequest(make([]byte, 0, 128+len(params)), s.next, method, params)
	resp, err := s.post(ctx, s.out)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		s.id = id
	}
	s.in.Reset()
	if _, err := s.in.ReadFrom(resp.Body); err != nil {
		return nil, err
	}
	if kind := resp.Header.Get("Content-Type"); len(kind) >= 17 && kind[:17] == "text/event-stream" {
		return fromEvents(s.in.Bytes(), s.next)
	}
	return answerTo(s.in.Bytes(), s.next)
}

// answerTo takes the result out of an answer.
func answerTo(frame []byte, id int64) ([]byte, error) {
	m, err := wire.Parse(frame)
	if err != nil {
		return nil, fmt.Errorf("the answer: %w: %.100s", err, frame)
	}
	if got, ok := wire.Int(m.ID); !ok || got != id || !m.IsResponse() {
		return nil, fmt.Errorf("no answer to %d: %.100s", id, frame)
	}
	return result(&m)
}

func result(m *wire.Message) ([]byte, error) {
	if m.Error != nil {
		code, text := wire.DecodeError(m.Error)
		return nil, &RPCError{code, text}
	}
	return m.Result, nil
}

// fromEvents finds the answer among the events of a stream that has ended.
// Servers that are measured write each message as one data line.
func fromEvents(stream []byte, id int64) ([]byte, error) {
	for len(stream) > 0 {
		line := stream
		if i := bytes.IndexByte(stream, '\n'); i >= 0 {
			line, stream = stream[:i], stream[i+1:]
		} else {
			stream = nil
		}
		data, ok := bytes.CutPrefix(line, []byte("data:"))
		if data = bytes.TrimSpace(data); !ok || len(data) == 0 {
			continue
		}
		m, err := wire.Parse(data)
		if got, is := wire.Int(m.ID); err == nil && is && got == id && m.IsResponse() {
			return result(&m)
		}
	}
	return nil, errors.New("the stream ended without the answer")
}

// Close tells the other side that the session ends; it waits a second at most.
func (s *httpSession) Close() {
	if s.id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	r, err := s.request(ctx, http.MethodDelete, nil)
	if err != nil {
		return
	}
	if resp, err := s.http.Do(r); err == nil {
		resp.Body.Close()
	}
}

// Listen opens the standing stream of a session over HTTP; the caller closes it.
func Listen(ctx context.Context, s Session) (io.Closer, error) {
	h, ok := s.(*httpSession)
	if !ok {
		return nil, errors.New("only HTTP has a standing stream")
	}
	r, err := h.request(ctx, http.MethodGet, nil)
	if err != nil {
		return nil, err
	}
	r.Header["Accept"] = []string{"text/event-stream"}
	resp, err := h.http.Do(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("the stream: HTTP %d", resp.StatusCode)
	}
	return resp.Body, nil
}
