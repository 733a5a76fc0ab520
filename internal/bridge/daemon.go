package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// post sends one message to the daemon and returns the answer, if it is a
// request; what comes before it is passed on. The fault's kind says what can be
// done: Dial and SessionLost were not executed, and Conflict are headers that
// do not fit the tool.
func (b *bridge) post(ctx context.Context, rq *relayed, line []byte, s session) ([]byte, error) {
	b.remember(rq, line)
	resp, err := b.send(ctx, rq, line, s)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if !rq.IsRequest() {
		return nil, nil
	}
	if resp.StatusCode == http.StatusNotFound && !rq.Modern && s.id != "" && rq.Method != mcp.Initialize {
		return nil, &fault.Fault{Kind: fault.SessionLost, Op: "bridge", Outcome: fault.NotSent, Status: resp.StatusCode}
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), mcp.TypeEvents) {
		return b.readEvents(ctx, rq, resp)
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, resp.Body, maxAnswer))
	if err != nil {
		return nil, linkFault(ctx, err)
	}
	return b.readBody(rq, resp, body)
}

// send makes the HTTP request.
func (b *bridge) send(ctx context.Context, rq *relayed, line []byte, s session) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url, bytes.NewReader(line))
	if err != nil {
		return nil, &fault.Fault{Kind: fault.Invalid, Op: "bridge", Outcome: fault.NotSent, Err: err}
	}
	req.Header.Set("Content-Type", mcp.TypeJSON)
	req.Header.Set("Accept", mcp.AcceptBoth)
	b.setHeaders(req.Header, rq, s)
	resp, err := b.web.Do(req)
	if err != nil {
		return nil, linkFault(ctx, err)
	}
	return resp, nil
}

// ask sends a request of the bridge's own and returns the whole JSON answer.
func (b *bridge) ask(ctx context.Context, rq *relayed, line []byte) ([]byte, error) {
	resp, err := b.send(ctx, rq, line, session{})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(http.MaxBytesReader(nil, resp.Body, maxAnswer))
	if err != nil {
		return nil, linkFault(ctx, err)
	}
	return body, nil
}

// setHeaders sets what the era of a request asks for.
func (b *bridge) setHeaders(h http.Header, rq *relayed, s session) {
	if !rq.Modern {
		if rq.Method != mcp.Initialize && s.id != "" {
			h.Set(mcp.HeaderSession, s.id)
			h.Set(mcp.HeaderVersion, s.version)
		}
		return
	}
	version, _ := wire.Text(rq.Fields.Meta.Version)
	h.Set(mcp.HeaderVersion, version)
	h.Set(mcp.HeaderMethod, rq.Method)
	h.Set(mcp.HeaderNamedSession, b.name)
	b.mu.Lock()
	b.nameUsed = true
	b.mu.Unlock()
	switch rq.Method {
	case mcp.ToolsCall, mcp.PromptsGet, mcp.ResourcesRead, mcp.TasksGet, mcp.TasksUpdate, mcp.TasksCancel:
		name, _ := rq.ItemName()
		h.Set(mcp.HeaderName, mcp.EncodeHeader(name))
		b.mu.Lock()
		params := b.params[name]
		b.mu.Unlock()
		for _, m := range params {
			if text, ok := m.Value(rq.Fields.Arguments); ok {
				h.Set(m.Header(), mcp.EncodeHeader(text))
			}
		}
	}
}

// readBody reads a JSON answer.
func (b *bridge) readBody(rq *relayed, resp *http.Response, body []byte) ([]byte, error) {
	msg, err := wire.Parse(body)
	if err != nil || !msg.IsResponse() {
		return nil, &fault.Fault{Kind: fault.HTTPStatus, Op: "bridge", Status: resp.StatusCode, Err: fmt.Errorf("no JSON-RPC answer")}
	}
	code, text := wire.DecodeError(msg.Error)
	if msg.Error != nil && code == mcp.CodeHeaderMismatch && rq.Method == mcp.ToolsCall {
		return nil, &fault.Fault{Kind: fault.Conflict, Op: "bridge", Outcome: fault.NotSent, Err: errors.New(text)}
	}
	if msg.Error != nil && resp.StatusCode == http.StatusServiceUnavailable {
		return nil, turnedAway(msg.Error, text)
	}
	if msg.Error != nil && wire.IsNull(msg.ID) {
		body = wire.AppendRawError(nil, rq.ID, msg.Error) // refused before its id was read
	}
	b.answered(rq, resp, &msg)
	return body, nil
}

// turnedAway is the fault of a request that the daemon does not serve now.
func turnedAway(raw []byte, text string) *fault.Fault {
	f := &fault.Fault{Kind: fault.Unavailable, Op: "bridge", Outcome: fault.NotSent, Err: errors.New(text)}
	if outcome, _ := wire.Text(wire.Get(raw, "data", "outcome")); outcome == fault.Unknown.String() {
		f.Outcome = fault.Unknown
	}
	return f
}

// readEvents reads a stream up to the answer, and passes on what comes before.
func (b *bridge) readEvents(ctx context.Context, rq *relayed, resp *http.Response) ([]byte, error) {
	var frame []byte
	err := events(resp.Body, func(data []byte) bool {
		msg, err := wire.Parse(data)
		switch {
		case err != nil:
		case msg.IsResponse():
			b.answered(rq, resp, &msg)
			frame = data
		case rq.muted.Load():
		case rq.emit != nil:
			rq.emit(data)
		default:
			b.outbox.Send(data)
		}
		return frame == nil
	})
	if frame != nil {
		return frame, nil
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return nil, linkFault(ctx, err)
}

// answered takes what a new session needs from the answer to initialize.
func (b *bridge) answered(rq *relayed, resp *http.Response, msg *wire.Message) {
	id := resp.Header.Get(mcp.HeaderSession)
	if rq.Method != mcp.Initialize || msg.Result == nil || id == "" {
		return
	}
	version, _ := wire.Text(wire.Get(msg.Result, "protocolVersion"))
	b.endStanding()
	ctx, cancel := context.WithCancel(b.calls)
	ended := make(chan struct{})
	s := session{id: id, version: version}
	b.mu.Lock()
	b.session = s
	b.stand = func() { cancel(); <-ended }
	b.mu.Unlock()
	go func() { // ends with endStanding, which waits for it
		defer close(ended)
		b.listen(ctx, s)
	}()
}

func (b *bridge) endStanding() {
	b.mu.Lock()
	stand := b.stand
	b.stand = func() {}
	b.mu.Unlock()
	stand()
}

// listen keeps the standing stream of one session open. It is opened again
// with a growing delay, until the daemon does not know the session any more:
// then a new session is opened, so that the client hears of changes without
// having to ask.
func (b *bridge) listen(ctx context.Context, s session) {
	step := firstPause
	for ctx.Err() == nil {
		status, heard := b.listenOnce(ctx, s)
		if status == http.StatusNotFound {
			b.lostStanding(s)
			return
		}
		if status != 0 && status != http.StatusOK && status < 500 {
			return // there is none
		}
		if heard {
			step = firstPause
		}
		if !pause(ctx, step) {
			return
		}
		step = min(2*step, maxPause)
	}
}

// listenOnce returns the HTTP status, 0 if there was none, and whether
// anything came.
func (b *bridge) listenOnce(ctx context.Context, s session) (status int, heard bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url, nil)
	if err != nil {
		return http.StatusBadRequest, false
	}
	req.Header.Set("Accept", mcp.TypeEvents)
	req.Header.Set(mcp.HeaderSession, s.id)
	req.Header.Set(mcp.HeaderVersion, s.version)
	resp, err := b.web.Do(req)
	if err != nil {
		return 0, false
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		_ = events(resp.Body, func(data []byte) bool { // its end is followed by another attempt
			heard = true
			b.outbox.Send(bytes.Clone(data))
			return true
		})
	}
	return resp.StatusCode, heard
}

// lostStanding opens a new session in place of s, beside the standing stream
// that found out, which ends.
func (b *bridge) lostStanding(s session) {
	if !b.admission.Admit() {
		return
	}
	go func() { // ends with its time; the admission's drain waits for it
		defer b.admission.Work.Done()
		ctx, cancel := context.WithTimeout(b.calls, noticeLimit)
		defer cancel()
		_ = b.reopen(ctx, s) // the client's next request tries again
	}()
}

// goodbye ends the daemon's sessions, within a second.
func (b *bridge) goodbye() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s := b.current()
	if s.id != "" {
		b.leave(ctx, http.Header{mcp.HeaderSession: {s.id}, mcp.HeaderVersion: {s.version}})
	}
	b.mu.Lock()
	named := b.nameUsed
	b.mu.Unlock()
	if named {
		b.leave(ctx, http.Header{mcp.HeaderNamedSession: {b.name}})
	}
}

func (b *bridge) leave(ctx context.Context, h http.Header) {
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, b.url, nil)
	if err != nil {
		return
	}
	req.Header = h
	if resp, err := b.web.Do(req); err == nil {
		resp.Body.Close()
	}
}

// linkFault says what is known about a request whose exchange broke.
func linkFault(ctx context.Context, err error) error {
	f := &fault.Fault{Kind: fault.Broken, Op: "bridge", Err: err}
	var dial *net.OpError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		f.Kind = fault.Deadline
	case ctx.Err() != nil:
		f.Kind, f.Err = fault.Canceled, context.Cause(ctx)
	case errors.As(err, &dial) && dial.Op == "dial":
		f.Kind, f.Outcome = fault.Dial, fault.NotSent
	}
	return f
}

// events calls fn with the messages of a stream until fn is false or the
// stream ends.
func events(r io.Reader, fn func(data []byte) bool) error {
	rd := mcp.NewEventReader(r, maxAnswer, "")
	defer rd.Release()
	for {
		ev, err := rd.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case ev.IsMessage() && !fn(ev.Data):
			return nil
		}
	}
}
