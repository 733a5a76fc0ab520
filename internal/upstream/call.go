package upstream

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/wire"
)

// Call sends one request and returns its result, as the server sent it
// but for one repair: a tools/call result without content gets an empty
// array. Every error is a *fault.Fault; a server's own error is of kind RPC.
// When ctx ends, the caller is free at once, and the server is told in the
// background. Where ctx has no deadline the server's CallTimeout bounds it.
//
// Methods that a modern server does not have any more are put into its words:
// resources/subscribe and resources/unsubscribe open and end a stream of their
// own, logging/setLevel is answered here.
func (u *Upstream) Call(ctx context.Context, c *Call) (Result, error) {
	if handled, err := u.translate(ctx, c); handled {
		return emptyResult(err)
	}
	if c.LogLevel != "" {
		defer u.loudness.during(ctx, c)()
	}
	msg, f := u.request(ctx, c)
	if f == nil && c.Method == mcp.ToolsCall && u.era.Modern && errorCode(&msg) == mcp.CodeHeaderMismatch {
		msg, f = u.withNewHeaders(ctx, c, msg)
	}
	if f != nil {
		return Result{}, f
	}
	if msg.Error != nil {
		return Result{}, u.doubts.refusal(ctx, c.Method, msg.Error)
	}
	raw, f := repaired(c.Method, msg.Result)
	if f != nil {
		return Result{}, f.At(u.opts.Server.Name, u.opts.Gen)
	}
	return Result{raw, msg.URIs}, nil
}

// translate serves the methods that the server's era has no requests for.
func (u *Upstream) translate(ctx context.Context, c *Call) (handled bool, err error) {
	if !u.era.Modern && c.Method == mcp.LoggingSetLevel {
		return true, u.setLevel(ctx, c)
	}
	if !u.era.Modern && !strings.HasPrefix(c.Name, TaskPrefix) {
		return false, nil
	}
	uri := c.Name
	if uri == "" {
		uri, _ = wire.Text(wire.Get(c.Params, "uri"))
	}
	if !u.era.Modern {
		u.callers.listenTask(c.Method, c.Name)
		return true, nil
	}
	switch c.Method {
	case mcp.ResourcesSubscribe:
		return true, u.subs.subscribe(ctx, uri)
	case mcp.ResourcesUnsubscribe:
		u.subs.unsubscribe(uri)
		return true, nil
	case mcp.LoggingSetLevel:
		return true, nil
	default:
		return false, nil
	}
}

// setLevel is logging/setLevel toward a server that has it.
func (u *Upstream) setLevel(ctx context.Context, c *Call) error {
	f := u.loudness.rebase(ctx, mcp.LevelRank(wire.Get(c.Params, "level")), func(ctx context.Context, params []byte) *fault.Fault {
		again := *c
		again.Params = params
		msg, f := u.request(ctx, &again)
		if f == nil && msg.Error != nil {
			f = u.rpcFault(c.Method, msg.Error)
		}
		return f
	})
	if f != nil {
		return f
	}
	return nil
}

func emptyResult(err error) (Result, error) {
	if err != nil {
		return Result{}, err
	}
	return Result{Raw: []byte("{}")}, nil
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
	sent := u.now()
	release := context.AfterFunc(u.ctx, cancel)
	defer release()
	msg, err := u.link.conn.Call(ctx, req)
	u.leave(id)
	if err != nil {
		return wire.Message{}, u.failed(ctx, c, req, sent, err)
	}
	u.hear()
	u.callers.tail(id, c, msg.Result)
	u.callers.followTask(c, &msg)
	return msg, nil
}

// bounded gives ctx a deadline if it has none. Who sends a call has usually
// set one that covers all sends, and may have a newer CallTimeout than this
// generation was started with.
func (u *Upstream) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, u.opts.Server.CallTimeout)
}

// enter registers a call and arms the silence timer. It refuses calls on an
// upstream that has ended.
func (u *Upstream) enter(ctx context.Context, id int64, c *Call) *fault.Fault {
	if f := u.over(c.Method); f != nil {
		return f
	}
	u.callers.enter(ctx, id, c)
	u.pinger.enter()
	return nil
}

func (u *Upstream) leave(id int64) {
	u.callers.leave(id)
	u.pinger.leave()
}

// failed says what a call without an answer means, and does what follows from
// it: the server is told of a call that was given up and pinged if it has said
// nothing since that was sent, a lost session ends the upstream, a suspicion
// is decided.
func (u *Upstream) failed(ctx context.Context, c *Call, req *transport.Request, sent time.Duration, err error) *fault.Fault {
	f := u.blame(req.Method, err)
	if f.Outcome == fault.Unknown {
		u.callers.abandonCall(req.ID, c)
	}
	switch f.Kind {
	case fault.Canceled, fault.Deadline:
		if u.ctx.Err() != nil {
			return u.cutOff(f)
		}
		if f.Outcome != fault.NotSent {
			u.tellCancelled(req.ID, f.Kind)
			if f.Kind == fault.Deadline {
				u.pinger.overdue(sent)
			}
		}
	case fault.Closed:
		if u.cause() != nil { // why the link is being closed says more
			return u.cutOff(f)
		}
	case fault.SessionLost:
		u.end(f)
	case fault.SessionSuspect:
		return u.doubts.decide(ctx, f)
	case fault.RateLimited:
		u.spare(f)
	default: // it says nothing of the link
	}
	return f
}

func (u *Upstream) tellCancelled(id int64, kind fault.Kind) {
	if u.link.conn.Info().CancelByClose {
		return
	}
	reason := "the client gave the request up"
	if kind == fault.Deadline {
		reason = "the request's deadline has passed"
	}
	u.sendCancelled(id, reason, func() { u.callers.proveCancel(id) })
}

// repaired checks a result. It must be an object; the result of a tool must have
// content, which old servers leave out.
func repaired(method string, result []byte) ([]byte, *fault.Fault) {
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
