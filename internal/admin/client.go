package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/everline/everline/fault"
)

// ErrNotRunning is in the chain of every error of a client whose everline does
// not answer at all.
var ErrNotRunning = errors.New("everline is not running")

// ErrStopped and ErrRemoved are in the chain of the error that ends a stream
// because there is nothing more to come: everline has shut down in order, or
// the server is not configured any more.
var (
	ErrStopped = errors.New("everline has stopped")
	ErrRemoved = errors.New("the server was removed from the configuration")
)

// A Client talks to the everline that runs on a state folder.
type Client struct {
	http     *http.Client
	stateDir string
}

const (
	dialTimeout = 5 * time.Second       // bounds the connect to a local socket
	dialRetry   = 10 * time.Millisecond // between two tries of a patient client
)

// NewClient returns a client for the state folder. It connects with its first
// request. For as long as patience an everline that does not listen may still
// be starting.
func NewClient(stateDir string, patience time.Duration) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := dialWithin(ctx, stateDir, patience)
		if err != nil {
			return nil, err
		}
		if err := checkServer(conn, stateDir); err != nil {
			_ = conn.Close() // nothing was sent
			return nil, err
		}
		return conn, nil
	}
	return &Client{
		http:     &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}},
		stateDir: stateDir,
	}
}

func dialWithin(ctx context.Context, stateDir string, patience time.Duration) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	for end := time.Now().Add(patience); ; {
		conn, err := d.DialContext(ctx, "unix", socketPath(stateDir))
		if err == nil || !time.Now().Before(end) {
			return conn, err
		}
		select {
		case <-time.After(dialRetry):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// Status is GET /v1/status.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var st Status
	return st, c.get(ctx, "/v1/status", &st)
}

// Version is GET /v1/version.
func (c *Client) Version(ctx context.Context) (Version, error) {
	var v Version
	return v, c.get(ctx, "/v1/version", &v)
}

// Tools is GET /v1/tools.
func (c *Client) Tools(ctx context.Context) ([]Tool, error) {
	var tools []Tool
	return tools, c.get(ctx, "/v1/tools", &tools)
}

// Pins is GET /v1/pins.
func (c *Client) Pins(ctx context.Context) (Pins, error) {
	var p Pins
	return p, c.get(ctx, "/v1/pins", &p)
}

// Approve is POST /v1/pins/approve.
func (c *Client) Approve(ctx context.Context, a Approval) (Approved, error) {
	var done Approved
	data, err := json.Marshal(a)
	if err != nil {
		return done, &fault.Fault{Kind: fault.Invalid, Op: "approve", Outcome: fault.NotSent, Err: err}
	}
	body, err := c.do(ctx, http.MethodPost, "/v1/pins/approve", data)
	if err != nil {
		return done, err
	}
	defer body.Close()
	return done, decode(body, &done)
}

// serverPath is the path of an operation on a server. Its name may be any text,
// and a path of dots would be taken for a way to somewhere else.
func serverPath(server, op string) string {
	escaped := url.PathEscape(server)
	if strings.Trim(server, ".") == "" {
		escaped = strings.ReplaceAll(server, ".", "%2E")
	}
	return "/v1/servers/" + escaped + "/" + op
}

// Operate runs restart, reconnect, enable or disable, and waits until the
// server has settled if wait is not 0, at most so long.
func (c *Client) Operate(ctx context.Context, server, op string, wait time.Duration) (Server, error) {
	path := serverPath(server, op)
	if wait > 0 {
		path += "?wait=" + wait.String()
	}
	var s Server
	body, err := c.do(ctx, http.MethodPost, path, nil)
	if err != nil {
		return s, err
	}
	defer body.Close()
	return s, decode(body, &s)
}

// Call is POST /v1/call: the tool's raw result.
func (c *Client) Call(ctx context.Context, r CallRequest) (json.RawMessage, error) {
	result, _, err := c.CallAsked(ctx, r, nil)
	return result, err
}

// CallAsked is Call. Forms that the server wants to be filled in go to ask, one
// after the other, which returns the raw result of elicitation/create; where ask
// is nil nobody fills them in. unanswered is the method of a request of the
// server that nobody answered, "" if there was none.
func (c *Client) CallAsked(ctx context.Context, r CallRequest, ask func(params json.RawMessage) json.RawMessage) (result json.RawMessage, unanswered string, err error) {
	r.Forms = ask != nil
	arguments := r.Arguments
	r.Arguments = nil
	data, err := json.Marshal(r)
	if err == nil && len(arguments) > 0 {
		if !json.Valid(arguments) {
			err = errors.New("the arguments are not JSON")
		}
		// As they are: json.Marshal rewrites raw bytes.
		data = slices.Concat(data[:len(data)-1], []byte(`,"arguments":`), arguments, []byte{'}'})
	}
	if err != nil {
		return nil, "", &fault.Fault{Kind: fault.Invalid, Op: "call", Outcome: fault.NotSent, Err: err}
	}
	resp, err := c.ask(ctx, http.MethodPost, "/v1/call", data)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	result, err = c.readCall(ctx, resp, ask)
	if err != nil {
		return nil, "", fault.From("call", err)
	}
	return result, resp.Header.Get(unansweredHeader), nil
}

// Logs gives the kept stderr lines of a server to fn, and with follow those to
// come until ctx ends.
func (c *Client) Logs(ctx context.Context, server string, follow bool, fn func(LogLine) error) error {
	return stream(ctx, c, serverPath(server, "logs"), follow, fn)
}

// Events gives the kept events to fn, and with follow those to come until ctx ends.
func (c *Client) Events(ctx context.Context, follow bool, fn func(Event) error) error {
	return stream(ctx, c, "/v1/events", follow, fn)
}

func stream[T any](ctx context.Context, c *Client, path string, follow bool, fn func(T) error) error {
	if follow {
		path += "?follow=1"
	}
	resp, err := c.ask(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	dec := json.NewDecoder(bufio.NewReader(resp.Body))
	for {
		var v T
		switch err := dec.Decode(&v); {
		case errors.Is(err, io.EOF) && follow && ctx.Err() == nil:
			return ended(resp.Trailer.Get(endHeader))
		case errors.Is(err, io.EOF):
			return nil
		case ctx.Err() != nil:
			return fault.From("read", ctx.Err())
		case err != nil:
			return failedStream(err)
		}
		if err := fn(v); err != nil {
			return err
		}
	}
}

func (c *Client) get(ctx context.Context, path string, v any) error {
	body, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer body.Close()
	return decode(body, v)
}

func decode(r io.Reader, v any) error {
	if err := json.NewDecoder(r).Decode(v); err != nil {
		return &fault.Fault{Kind: fault.Protocol, Op: "read the answer", Err: err}
	}
	return nil
}

// do sends one request and returns the body of a good answer. Every error is a
// *fault.Fault.
func (c *Client) do(ctx context.Context, method, path string, data []byte) (io.ReadCloser, error) {
	resp, err := c.ask(ctx, method, path, data)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// ask is do with the whole answer, whose body the caller must close.
func (c *Client) ask(ctx context.Context, method, path string, data []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://everline"+path, bytes.NewReader(data))
	if err != nil {
		return nil, &fault.Fault{Kind: fault.Invalid, Op: "ask everline", Outcome: fault.NotSent, Err: err}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unanswered(ctx, err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	var e Error
	if err := decode(resp.Body, &e); err != nil {
		return nil, err
	}
	return nil, e.Error.Fault()
}

func (c *Client) unanswered(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fault.From("ask everline", ctx.Err())
	}
	var refused *fault.Fault
	if errors.As(err, &refused) {
		return refused // by the server there
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return &fault.Fault{
			Kind: fault.Unavailable, Op: "ask everline", Outcome: fault.NotSent, Remedy: "everline serve",
			Err: notRunning{c.stateDir},
		}
	}
	return &fault.Fault{Kind: fault.Broken, Op: "ask everline", Err: err}
}

type notRunning struct{ stateDir string }

func (e notRunning) Error() string        { return "no everline runs on the state folder " + e.stateDir }
func (e notRunning) Is(target error) bool { return target == ErrNotRunning }
