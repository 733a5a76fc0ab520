package upstream

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/wire"
)

// Call sends one request and returns its result, as the server sent it
// but for one mending: a tools/call result without content gets an empty
// array. Every error is a *fault.Fault; a server's own error is of kind RPC.
// When ctx ends, the caller is free at once, and the server is told in the
// background. Where ctx has no deadline the server's CallTimeout bounds it.
//
// Methods that a modern server does not have any more are put into its words:
// resources/subscribe and resources/unsubscribe become Subscribe and
// Unsubscribe, logging/setLevel is answered here.
func (u *Upstream) Call(ctx context.Context, c *Call) (Result, error) {
	if handled, err := u.translate(ctx, c); handled {
		return emptyResult(err)
	}
	msg, f := u.request(ctx, c)
	if f == nil && c.Method == mcp.ToolsCall && u.era.Modern && errorCode(&msg) == mcp.CodeHeaderMismatch {
		msg, f = u.withNewHeaders(ctx, c, msg)
	}
	if f != nil {
		return Result{}, f
	}
	if msg.Error != nil {
		return Result{}, u.refusal(ctx, c.Method, msg.Error)
	}
	raw, f := mend(c.Method, msg.Result)
	if f != nil {
		return Result{}, f.At(u.opts.Server.Name, u.opts.Gen)
	}
	return Result{raw, msg.URIs}, nil
}

// Check is what is wrong with a call that no server could be sent; nil if it is
// well. Params and Capabilities are objects, or absent.
func (c *Call) Check() *fault.Fault {
	text := ""
	switch {
	case c.Method == "":
		text = "the call has no method"
	case !isObject(c.Params):
		text = "the params are no JSON object"
	case !isObject(c.Capabilities):
		text = "the capabilities are no JSON object"
	default:
		return nil
	}
	f := fault.New(fault.Invalid, c.Method, text)
	f.Outcome = fault.NotSent
	return f
}

// isObject tells whether raw is one JSON object and nothing else, or absent.
func isObject(raw []byte) bool {
	return raw == nil || wire.IsObject(raw) && wire.Valid(raw) && utf8.Valid(raw)
}

// translate serves the methods that the server's era has no requests for.
func (u *Upstream) translate(ctx context.Context, c *Call) (handled bool, err error) {
	if !u.era.Modern && !strings.HasPrefix(c.Name, TaskPrefix) {
		return false, nil
	}
	uri := c.Name
	if uri == "" {
		uri, _ = wire.Text(wire.Get(c.Params, "uri"))
	}
	if !u.era.Modern {
		return true, nil // older servers tell of all tasks unasked
	}
	switch c.Method {
	case mcp.ResourcesSubscribe:
		return true, u.Subscribe(ctx, uri)
	case mcp.ResourcesUnsubscribe:
		return true, u.Unsubscribe(ctx, uri)
	case mcp.LoggingSetLevel:
		return true, nil
	default:
		return false, nil
	}
}

func emptyResult(err error) (Result, error) {
	if err != nil {
		return Result{}, err
	}
	return Result{Raw: []byte("{}")}, nil
}

// errorCode is the code of an error answer; 0 for a result.
func errorCode(m *wire.Message) int64 {
	if m.Error == nil {
		return 0
	}
	code, _ := wire.DecodeError(m.Error)
	return code
}

// withNewHeaders sends a tool call again, once, whose headers were refused:
// the tool's definition has changed since it was listed. A refusal of the
// headers comes before execution. first is the refusal.
func (u *Upstream) withNewHeaders(ctx context.Context, c *Call, first wire.Message) (wire.Message, *fault.Fault) {
	u.changed(catalog.Tools)
	p, f := u.listPages(ctx, catalog.Tools, nil)
	i := slices.IndexFunc(p.items, func(t catalog.Item) bool { return t.Name == c.Name })
	if f != nil || i < 0 {
		return first, nil
	}
	again := *c
	again.Headers = p.items[i].Headers
	return u.request(ctx, &again)
}

// refusal is the server's own error, unless it is that of another server which
// answers at this place by now: a new handshake is due then, and the call was
// not executed.
func (u *Upstream) refusal(ctx context.Context, op string, raw []byte) *fault.Fault {
	f := u.rpcFault(op, raw)
	switch {
	case u.otherEra(ctx, f.RPC):
		f.Err = errOtherEra
	case u.forgotten(ctx, f.RPC):
		f.Err = errForgotten
	default:
		return f
	}
	f.Kind, f.Outcome, f.RPC = fault.SessionLost, fault.NotSent, nil
	u.end(f)
	return f
}

// otherEra tells whether an error shows that the server's era has changed. One
// is certain: that of a modern server which names the versions that it speaks
// now. Others look the same as a server's own about a call that it executed,
// legacy servers may use every code from -32000 to -32099: a probe decides,
// and only where another server can be at the end of the same link.
func (u *Upstream) otherEra(ctx context.Context, e *fault.RPCError) bool {
	switch {
	case u.era.Modern && e.Code == mcp.CodeUnsupportedVersion && wire.IsArray(wire.Get(e.Raw, "data", "supported")):
		return true
	case u.era.Transport != transport.HTTP || u.vouched():
		return false
	case u.era.Modern:
		return perhapsLegacy(e.Code) && u.lostFor(ctx)
	default: // a session that is gone says nothing about a call that was answered
		return refusesEra(e.Code) && u.lostFor(ctx) && errors.Is(u.Err(), errOtherEra)
	}
}

// perhapsLegacy tells the codes with which legacy servers refuse requests that
// come without a session.
func perhapsLegacy(code int64) bool {
	return code == mcp.CodeMethodNotFound || code == mcp.CodeInvalidRequest || code == mcp.CodeServerError
}

// refusesEra tells the codes with which modern servers refuse every request of
// the legacy era, ping included.
func refusesEra(code int64) bool {
	return code == mcp.CodeUnsupportedVersion || code == mcp.CodeHeaderMismatch
}

var errOtherEra = errors.New("the server speaks another protocol version than at the handshake")

// request sends one request that silence on the link is watched for, and
// returns its answer: a result or an error object.
func (u *Upstream) request(ctx context.Context, c *Call) (wire.Message, *fault.Fault) {
	id := u.ids.Add(1)
	req, f := u.encode(c, id)
	if f != nil {
		return wire.Message{}, f.At(u.opts.Server.Name, u.opts.Gen)
	}
	ctx, cancel := u.bounded(ctx)
	defer cancel()
	if f := u.enter(ctx, id, c); f != nil {
		return wire.Message{}, f
	}
	sent := time.Since(u.born)
	release := context.AfterFunc(u.life, cancel)
	defer release()
	msg, err := u.link.conn.Call(ctx, req)
	u.leave(id)
	if err != nil {
		return wire.Message{}, u.failed(ctx, c, req, sent, err)
	}
	u.hear()
	u.tail(id, c, msg.Result)
	u.followTask(c, &msg)
	return msg, nil
}

// bounded gives ctx a deadline if it has none. Who sends a call has usually
// set one that covers all sends, and may have a newer CallTimeout than this
// life was started with.
func (u *Upstream) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, u.opts.Server.CallTimeout)
}

// encode makes the request of one call.
func (u *Upstream) encode(c *Call, id int64) (*transport.Request, *fault.Fault) {
	params, f := u.hello.envelope.params(c, id)
	if f != nil {
		return nil, f
	}
	req := &transport.Request{ID: id, Method: c.Method, Name: c.Name}
	if u.era.Modern && len(c.Headers) > 0 {
		req.Header = headers(c)
	}
	req.Frame = wire.AppendRequest(wire.Room(len(params)+len(c.Method)+64), id, c.Method, params)
	return req, nil
}

// enter registers a call and arms the silence timer. It refuses calls on an
// upstream that has ended.
func (u *Upstream) enter(ctx context.Context, id int64, c *Call) *fault.Fault {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended {
		f := &fault.Fault{Kind: fault.Closed, Op: c.Method, Outcome: fault.NotSent, Server: u.opts.Server.Name, Gen: u.opts.Gen}
		if u.err != nil {
			because(f, u.err)
		}
		return f
	}
	if len(u.calls) == 0 {
		u.asked = time.Since(u.born)
	}
	u.calls[id] = newFlown(ctx, c)
	u.clientSeenLocked(c)
	u.armSilenceLocked()
	return nil
}

func (u *Upstream) leave(id int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if c := u.calls[id]; c != nil && c.over != nil {
		close(c.over)
	}
	delete(u.calls, id)
}

// failed says what a call without an answer means, and does what follows from
// it: the server is told of a call that was given up and pinged if it has said
// nothing since that was sent, a lost session ends the upstream, a suspicion
// is decided.
func (u *Upstream) failed(ctx context.Context, c *Call, req *transport.Request, sent time.Duration, err error) *fault.Fault {
	f := u.blame(req.Method, err)
	if f.Outcome == fault.Unknown {
		u.abandonCall(req.ID, c)
	}
	switch f.Kind {
	case fault.Canceled, fault.Deadline:
		if u.life.Err() != nil {
			return u.cut(f)
		}
		if f.Outcome != fault.NotSent {
			u.tellCancelled(req.ID, f.Kind)
			if f.Kind == fault.Deadline {
				u.overdue(sent)
			}
		}
	case fault.Closed:
		if u.cause() != nil { // why the link is being closed says more
			return u.cut(f)
		}
	case fault.SessionLost:
		u.end(f)
	case fault.SessionSuspect:
		return u.decide(ctx, f)
	case fault.RateLimited:
		u.spare(f)
	default: // it says nothing of the link
	}
	return f
}

// spare notes how long the server asked to be left alone.
func (u *Upstream) spare(f *fault.Fault) {
	u.spared.Store(int64(time.Since(u.born) + f.RetryAfter))
}

// cut is the failure of a call that ended because the upstream did.
func (u *Upstream) cut(f *fault.Fault) *fault.Fault {
	out := *f
	out.Kind, out.Err = fault.Closed, errors.New("the connection was closed while the request was in flight")
	if cause := u.cause(); cause != nil {
		because(&out, cause)
	}
	return &out
}

// because makes cause, which ended the upstream, what f says.
func because(f, cause *fault.Fault) {
	f.Kind, f.Err = cause.Kind, cause.Cause()
	f.Status, f.Exit, f.Stderr, f.Remedy = cause.Status, cause.Exit, cause.Stderr, cause.Remedy
}

func (u *Upstream) tellCancelled(id int64, kind fault.Kind) {
	if u.link.conn.Info().CancelByClose {
		return
	}
	reason := "the client gave the request up"
	if kind == fault.Deadline {
		reason = "the request's deadline has passed"
	}
	u.sendCancelled(id, reason)
}

func (u *Upstream) sendCancelled(id int64, reason string) {
	params := wire.AppendInt([]byte(`{"requestId":`), id)
	params = wire.AppendString(append(params, `,"reason":`...), reason)
	u.sendThen(u.link, wire.AppendNotification(nil, mcp.NotifyCancelled, append(params, '}')), func() { u.proveCancel(id) })
}

// send writes a frame in the background, within sendTimeout. What is over the
// bound of sends on their way is dropped: the peer reads nothing then.
func (u *Upstream) send(l *link, frame []byte) { u.sendThen(l, frame, func() {}) }

// sendThen is send, and calls then, which does not wait, when the frame was
// written.
func (u *Upstream) sendThen(l *link, frame []byte, then func()) {
	u.mu.Lock()
	full := u.sends >= maxSends
	if !full {
		u.sends++
	}
	u.mu.Unlock()
	if full {
		u.ignored.Add(1)
		return
	}
	started := u.spawn(func() { // ends within sendTimeout, or when the upstream does
		defer u.sent()
		ctx, cancel := context.WithTimeout(u.life, sendTimeout)
		defer cancel()
		select {
		case <-l.ready:
			if l.conn.Send(ctx, frame) == nil { // a link that is broken says so by itself
				then()
			}
		case <-ctx.Done():
		}
	})
	if !started {
		u.sent()
	}
}

func (u *Upstream) sent() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sends--
	u.sentLocked()
}

// sentLocked tells Close when the last send is over.
func (u *Upstream) sentLocked() {
	if u.unsent == nil || u.sends > 0 {
		return
	}
	select {
	case <-u.unsent:
	default:
		close(u.unsent)
	}
}

// ask sends one request of our own, watched by nobody but ctx.
func (u *Upstream) ask(ctx context.Context, method string, params []byte) (wire.Message, *fault.Fault) {
	req, f := u.encode(&Call{Method: method, Params: params}, u.ids.Add(1))
	if f != nil {
		return wire.Message{}, f
	}
	msg, err := u.link.conn.Call(ctx, req)
	if err != nil {
		return wire.Message{}, u.blame(method, err)
	}
	u.hear()
	return msg, nil
}

// rpcFault is a server's own error, which says nothing against the link.
func (u *Upstream) rpcFault(op string, raw []byte) *fault.Fault {
	code, text, raw := wire.StrictError(raw)
	return &fault.Fault{
		Kind: fault.RPC, Op: op, Server: u.opts.Server.Name, Gen: u.opts.Gen, Outcome: fault.Answered,
		RPC: &fault.RPCError{Code: code, Message: text, Raw: raw},
	}
}

// mend checks a result. It must be an object; the result of a tool must have
// content, which old servers leave out.
func mend(method string, result []byte) ([]byte, *fault.Fault) {
	if !wire.IsObject(result) {
		f := fault.New(fault.Protocol, method, "the server's result is no object")
		f.Outcome = fault.Answered
		return nil, f
	}
	if method != mcp.ToolsCall {
		return result, nil
	}
	if wire.Has(result, "content") {
		return result, nil
	}
	if kind, ok := wire.Text(wire.Get(result, "resultType")); ok && kind != "complete" || isTask(result) {
		return result, nil
	}
	return wire.Set(result, []byte("[]"), "content"), nil
}

// hear notes a sign of life.
func (u *Upstream) hear() { u.heard.Store(int64(time.Since(u.born))) }
