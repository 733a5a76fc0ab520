package gateway

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/wire"
)

const (
	maxRounds = 16 // how often one call may ask for input
	maxInputs = 64 // requests for input in one round
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
	for round := 0; ; round++ {
		result, err := g.invoke(ctx, rq, c, st)
		if err != nil || !asksForInput(result) {
			return result, err
		}
		if round == maxRounds {
			return nil, noInput(rq, fmt.Errorf("it has asked for more %d times already", maxRounds))
		}
		responses, err := g.input(ctx, rq, wire.Get(result, "inputRequests"))
		if err != nil {
			return nil, noInput(rq, err)
		}
		again := *c
		again.Params = retryParams(rq.msg.Params, responses, wire.Get(result, "requestState"))
		c = &again
	}
}

// asksForInput tells whether a result is a request for input (2026-07-28
// basic/patterns/mrtr).
func asksForInput(result []byte) bool {
	if !bytes.Contains(result, []byte("_required")) { // "in" is in all prose, and makes the search slow
		return false
	}
	kind, _ := wire.Text(wire.Get(result, "resultType"))
	return kind == "input_required"
}

// retryParams are the params of the next round: the client's own, the answers,
// and the server's state exactly as it was.
func retryParams(params, responses, state []byte) []byte {
	if responses != nil {
		params = wire.Set(params, responses, "inputResponses")
	}
	if state != nil {
		params = wire.Set(params, state, "requestState")
	}
	return params
}

// An input is one request of a round, and its answer.
type input struct {
	key, method string
	params      []byte
	answer      []byte
	err         error
}

// input puts all requests of a round to a legacy client, at the same time, and
// returns the inputResponses.
func (g *Gateway) input(ctx context.Context, rq *request, requests []byte) ([]byte, error) {
	var all []*input
	for key, val := range wire.Members(requests) {
		method, _ := wire.Text(wire.Get(val, "method"))
		all = append(all, &input{key: key, method: method, params: wire.Get(val, "params")})
	}
	if len(all) > maxInputs {
		return nil, fmt.Errorf("it asks for %d things at a time", len(all))
	}
	if len(all) == 0 {
		return nil, pauseRound(ctx) // the server only wants to be asked again
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var work sync.WaitGroup
	for _, in := range all {
		work.Go(func() {
			err := g.guarded(in.method, func() { in.answer, in.err = rq.Ask(ctx, in.method, in.params) })
			if in.err = cmp.Or(in.err, err); in.err != nil {
				cancel() // the others are of no use any more
			}
		})
	}
	work.Wait()
	b := []byte{'{'}
	for i, in := range all {
		if in.err != nil && !errors.Is(in.err, context.Canceled) {
			return nil, in.err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(wire.AppendString(b, in.key), ':'), in.answer...)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return append(b, '}'), nil
}

// pauseRound waits before a server that is busy is asked again.
func pauseRound(ctx context.Context) error {
	if !pause(ctx, roundPause) {
		return ctx.Err()
	}
	return nil
}

// errInput marks the fault of a call whose server asked for input that could
// not be had.
var errInput = errors.New("the input could not be had")

// inputLack is the verdict on it.
var inputLack = verdict{codeConflict, true, "%s asked for input that it did not get"}

// noInput is that fault. A client's own refusal goes back to it in words.
func noInput(rq *request, err error) *fault.Fault {
	f := fault.From(rq.msg.Method, err)
	if f.Kind == fault.Canceled || f.Kind == fault.Deadline {
		return f
	}
	text := f.Text()
	if f.RPC != nil {
		text = f.RPC.Message
	}
	return &fault.Fault{Kind: fault.Conflict, Op: rq.msg.Method, Outcome: fault.Answered, Err: fmt.Errorf("%w: %s", errInput, text)}
}
