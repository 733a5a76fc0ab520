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
	round := rounds.New(x.Method, x.Params)
	for {
		answer, err := g.backend.Do(ctx, out)
		if err != nil || !rounds.Wanted(answer.Result) {
			return g.noteTask(ctx, c, use, &answer), err
		}
		again := *out
		if again.Params, err = round.Next(ctx, answer.Result, g.guardedAsk(c)); err != nil {
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
		answer, err := g.backend.Do(ctx, out)
		return lacked(c.missing.Load(), g.noteTask(ctx, c, use, &answer), err)
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
		var err error
		if died := g.guarded(x.Method, func() {
			var answer everline.Answer
			answer, err = g.backend.Do(p.ctx, out)
			result = g.noteTask(p.ctx, c, use, &answer)
		}); died != nil {
			err = died
		}
		g.inputs.finish(p, result, err)
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
