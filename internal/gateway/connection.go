package gateway

import (
	"context"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/gateway/stream"
	"github.com/everline/everline/internal/message"
)

// serveOn serves a request whose answer goes out on its connection's stream,
// or returns the answer that refuses it.
func (svc *service) serveOn(ctx context.Context, x *exchange, ad *message.Admission, out *stream.Outbox) *message.Answer {
	if x.sess != nil && !x.Modern {
		x.sess.Heard(x.Method, true)
	}
	if bad := ad.Enter(x.Message); bad != nil {
		svc.opts.Meter.Own(x.Method, true)
		return bad
	}
	x.out, x.tracked = out, true
	// Registered here, so that a cancel that comes right behind finds it.
	ctx, p, err := svc.inflight.begin(ctx, x)
	if err != nil {
		ad.Leave(x.Message)
		a := x.Failure(fault.From(x.Method, err))
		return &a
	}
	x.held.keep()
	go func() { // ends with its request; the admission's drain waits for it
		defer x.held.release()
		defer ad.Work.Done()
		defer svc.inflight.end(p)
		a := svc.serve(ctx, x)
		ad.Free(x.Message) // first: who reads the answer may use the id at once
		if !a.Silent {
			out.Send(a.Frame())
		}
		x.isSent()
	}()
	return nil
}
