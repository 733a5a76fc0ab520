package gateway

import (
	"context"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/rounds"
	"github.com/everline/everline/internal/wire"
)

// callLegacy makes a call for a client of the older revisions, which is asked at
// once for the input that the server wants on the way.
func (g *Gateway) callLegacy(ctx context.Context, x *exchange, out *everline.Call) ([]byte, error) {
	c := x.caller(nil)
	c.fill(out)
	out.Client, out.Capabilities = c, c.serves.declaration()
	use := &sessionUse{sess: x.sess}
	if x.sess != nil {
		use.own = &x.sess.own
	}
	out.Session = use.own
	round := rounds.New(x.msg.Method, x.msg.Params)
	for {
		result, err := g.send(ctx, c, out, use)
		if err != nil || !rounds.Wanted(result) {
			return result, err
		}
		again := *out
		if again.Params, err = round.Next(ctx, result, g.guardedAsk(c)); err != nil {
			return nil, err
		}
		out = &again
	}
}

// guardedAsk is the caller's Ask on a goroutine of its own.
func (g *Gateway) guardedAsk(c *caller) rounds.Ask {
	return func(ctx context.Context, method string, params []byte) (answer []byte, err error) {
		if died := g.guarded(method, func() { answer, err = c.Ask(ctx, method, params) }); died != nil {
			return nil, died
		}
		return answer, err
	}
}

// callModern makes a call for a modern client, which gets what the server asks
// for as an interim result, and comes back with it.
func (g *Gateway) callModern(ctx context.Context, x *exchange, out *everline.Call) ([]byte, error) {
	p, err := g.inputs.resume(x)
	if err != nil {
		return nil, err
	}
	if p != nil {
		return g.inputs.attend(ctx, p)
	}
	use, c, err := g.useSession(x)
	if err != nil {
		return nil, err
	}
	out.Session = use.own
	if x.name != nil {
		out.Params = wire.Delete(out.Params, "_meta", mcp.MetaSession) // whoever knows it can use the session
	}
	c.fill(out)
	if c.serves == 0 {
		defer use.over()
		out.Client = c
		result, err := g.send(ctx, c, out, use)
		return lacked(c.missing.Load(), result, err)
	}
	if p = g.inputs.begin(ctx, c); p == nil {
		use.over()
		return nil, errClosing
	}
	out.Client = p
	if out.Progress != nil {
		out.Progress = p.progress
	}
	x.held.keep() // the call is made from the body
	go func() {   // ends as the type's comment says; inputs.close waits for it
		defer x.held.release()
		defer use.over()
		var result []byte
		err := error(errPanic)
		defer func() { g.inputs.finish(p, result, err) }()
		if died := g.guarded(x.msg.Method, func() { result, err = g.send(p.ctx, c, out, use) }); died != nil {
			result, err = nil, died
		}
	}()
	return g.inputs.attend(ctx, p)
}

// fill fills in what a server is told of the caller's wishes.
func (c *caller) fill(out *everline.Call) {
	out.LogLevel = mcp.Levels[c.level]
	if c.wantsProgress() {
		out.Progress = c.progress
	}
}

// send hands a call to the hub. A task that the answer is gets an id of ours.
func (g *Gateway) send(ctx context.Context, c *caller, out *everline.Call, use *sessionUse) ([]byte, error) {
	if !c.mayBeTask() {
		return g.backend.Call(ctx, out)
	}
	again := *out
	var by everline.Answer
	again.Answered = func(a everline.Answer) { by = a }
	result, err := g.backend.Call(ctx, &again)
	if err != nil {
		return nil, err
	}
	return g.begun(ctx, c, use, by, result), nil
}
