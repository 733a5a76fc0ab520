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
func (svc *service) callLegacy(ctx context.Context, x *exchange, out *everline.Call) ([]byte, error) {
	c := x.caller(nil)
	c.fill(out)
	out.Client, out.Capabilities = c, c.serves.Declaration()
	c.takeTask(out)
	use := sessionUse{sess: x.sess}
	if x.sess != nil {
		use.isolated = &x.sess.Isolated
	}
	out.Session = use.isolated
	round := rounds.New(x.Method, x.Params)
	x.asked.Store(true)
	for asked := false; ; asked = true {
		answer, err := svc.backend.Do(ctx, out)
		if err == nil && !asked {
			svc.took(x, &answer)
		}
		if err != nil || !rounds.Wanted(answer.Result) {
			return svc.noteTask(ctx, c, &use, &answer), err
		}
		again := *out
		if again.Params, err = round.Next(ctx, answer.Result, svc.guardedAsk(c)); err != nil {
			return nil, err
		}
		out = &again
	}
}

// guardedAsk is a client's Ask on a goroutine of its own.
func (svc *service) guardedAsk(c everline.Client) rounds.Ask {
	return func(ctx context.Context, method string, params []byte) (answer []byte, err error) {
		if died := svc.guarded(method, func() { answer, err = c.Ask(ctx, method, params) }); died != nil {
			return nil, died
		}
		return answer, err
	}
}

// callModern makes a call for a modern client, which gets what the server asks
// for as an interim result, and comes back with it.
func (svc *service) callModern(ctx context.Context, x *exchange, out *everline.Call) ([]byte, error) {
	p, err := svc.inputs.resume(x)
	if err != nil {
		return nil, err
	}
	if p != nil {
		return svc.inputs.attend(ctx, p)
	}
	use, c, err := svc.useSession(x)
	if err != nil {
		return nil, err
	}
	out.Session = use.isolated
	if x.sess == nil && x.name != nil {
		out.Params = wire.Delete(out.Params, "_meta", mcp.MetaSession) // whoever knows it can use the session
	}
	c.fill(out)
	c.takeTask(out)
	if c.serves.Asks() != 0 {
		return svc.callAsking(ctx, c, out, use)
	}
	defer use.over()
	out.Client = c
	x.asked.Store(true)
	answer, err := svc.backend.Do(ctx, out)
	if err == nil {
		svc.took(x, &answer)
	}
	return lacked(c.missing.Load(), svc.noteTask(ctx, c, &use, &answer), err)
}

// callAsking is callModern for a client that can be asked for something. The call
// outlives its request, so it is made on a goroutine of its own.
func (svc *service) callAsking(ctx context.Context, c *caller, out *everline.Call, use sessionUse) ([]byte, error) {
	p := svc.inputs.begin(ctx, c)
	if p == nil {
		use.over()
		return nil, errClosing
	}
	out.Client = p
	c.asked.Store(true)
	if out.Progress != nil {
		out.Progress = p.progress
	}
	c.held.keep() // the call is made from the body
	go func() {   // ends as the comment of pendingInput says; inputs.close waits for it
		defer c.held.release()
		defer use.over()
		var result []byte
		var err error
		if died := svc.guarded(c.Method, func() {
			var answer everline.Answer
			answer, err = svc.backend.Do(p.ctx, out)
			if err == nil {
				svc.took(c.exchange, &answer)
			}
			result = svc.noteTask(p.ctx, c, &use, &answer)
		}); died != nil {
			err = died
		}
		svc.inputs.finish(p, result, err)
	}()
	return svc.inputs.attend(ctx, p)
}
