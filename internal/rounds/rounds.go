// Package rounds gets the input that a modern server asks for before it
// answers (2026-07-28 basic/patterns/mrtr), and sends the request again with
// it. It knows neither who is asked nor how a request is sent.
package rounds

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/wire"
)

const (
	Max       = 16          // how often one request may ask for input
	MaxInputs = 64          // requests for input in one round
	Pause     = time.Second // before a server that only wants to be asked again is
)

// Errors are all reasons for which input could not be had: errors.Is finds it
// in the fault that Do returns then.
var Errors = errors.New("the input could not be had")

// Ask puts one request of the server to the client and returns the raw result.
type Ask func(ctx context.Context, method string, params []byte) ([]byte, error)

// A Request is one request of a client, over the rounds in which it is sent.
type Request struct {
	method string
	params []byte // the client's own
	round  int
}

// New returns a request that has not been sent yet.
func New(method string, params []byte) *Request { return &Request{method: method, params: params} }

// Next gets the input that a result asks for, and returns the params of the next
// round.
func (r *Request) Next(ctx context.Context, result []byte, ask Ask) (params []byte, err error) {
	if r.round == Max {
		return nil, Failed(r.method, fmt.Errorf("it has asked for more %d times already", Max))
	}
	r.round++
	responses, err := Inputs(ctx, wire.Get(result, "inputRequests"), ask)
	if err != nil {
		return nil, Failed(r.method, err)
	}
	return again(r.params, responses, wire.Get(result, "requestState")), nil
}

// Do sends a request until its result is no request for input. method and
// params are the client's own; send gets the params of each round.
func Do(ctx context.Context, method string, params []byte, send func(ctx context.Context, params []byte) ([]byte, error), ask Ask) ([]byte, error) {
	r := New(method, params)
	for {
		result, err := send(ctx, params)
		if err != nil || !Wanted(result) {
			return result, err
		}
		if params, err = r.Next(ctx, result, ask); err != nil {
			return nil, err
		}
	}
}

// Wanted tells whether a result is a request for input.
func Wanted(result []byte) bool {
	if !bytes.Contains(result, []byte("_required")) { // "in" is in all prose, and makes the search slow
		return false
	}
	kind, _ := wire.Text(wire.Get(result, "resultType"))
	return kind == "input_required"
}

// Failed is the fault of a request whose server asked for input that could not
// be had. A client's own refusal goes back to it in words.
func Failed(method string, err error) *fault.Fault {
	f := fault.From(method, err)
	if f.Kind == fault.Canceled || f.Kind == fault.Deadline {
		return f
	}
	text := f.Reason()
	if f.RPC != nil {
		text = f.RPC.Message
	}
	return &fault.Fault{Kind: fault.Conflict, Op: method, Outcome: fault.Answered, Err: fmt.Errorf("%w: %s", Errors, text)}
}

// again are the params of the next round: the client's own, the answers, and
// the server's state exactly as it was.
func again(params, responses, state []byte) []byte {
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

// Inputs puts all requests of a round, an inputRequests object, to the client, at the
// same time, and returns the inputResponses.
func Inputs(ctx context.Context, requests []byte, ask Ask) ([]byte, error) {
	var all []*input
	for key, val := range wire.Members(requests) {
		method, _ := wire.Text(wire.Get(val, "method"))
		all = append(all, &input{key: key, method: method, params: wire.Get(val, "params")})
	}
	if len(all) > MaxInputs {
		return nil, fmt.Errorf("it asks for %d things at a time", len(all))
	}
	if len(all) == 0 {
		return nil, pause(ctx) // the server only wants to be asked again
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var work sync.WaitGroup
	for _, in := range all {
		work.Go(func() {
			if in.answer, in.err = ask(ctx, in.method, in.params); in.err != nil {
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

func pause(ctx context.Context) error {
	select {
	case <-time.After(Pause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
