package gateway

import (
	"context"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/rounds"
)

// perform makes a call, and gets the input that the server asks for on the
// way, across the eras. What it returns is the raw result for the client.
func (g *Gateway) perform(ctx context.Context, rq *request, c *everline.Call) ([]byte, error) {
	if rq.modern {
		return g.performModern(ctx, rq, c)
	}
	c.Client, c.Capabilities = rq, rq.serves.declaration()
	var st *stay
	if rq.sess != nil {
		c.Session = &rq.sess.own
		st = &stay{sess: rq.sess}
	}
	send := func(ctx context.Context, params []byte) ([]byte, error) {
		again := *c
		again.Params = params
		return g.invoke(ctx, rq, &again, st)
	}
	return rounds.Do(ctx, rq.msg.Method, c.Params, send, func(ctx context.Context, method string, params []byte) (answer []byte, err error) {
		if died := g.guarded(method, func() { answer, err = rq.Ask(ctx, method, params) }); died != nil {
			return nil, died
		}
		return answer, err
	})
}

// inputLack is the verdict on a call whose server did not get the input that
// it asked for.
var inputLack = verdict{mcp.CodeConflict, true, "%s asked for input that it did not get"}
