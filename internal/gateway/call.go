package gateway

import (
	"context"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/access"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
	"github.com/everline/everline/internal/policy"
	"github.com/everline/everline/internal/wire"
)

// call answers with what comes back from the server that a request is for. It
// keeps the request in flight meanwhile, and the outcome for a client that loses
// its connection, where the server wants that.
func (svc *service) call(parent context.Context, x *exchange, out *everline.Call) message.Answer {
	if x.BadLevel() {
		return *x.Refusal(mcp.CodeInvalidParams, "Invalid log level", nil)
	}
	k, first, bad := svc.results.promise(x)
	switch {
	case bad != nil:
		return *bad
	case !first:
		return svc.await(parent, x, k)
	case k != nil && x.comesBack():
		parent = context.WithoutCancel(parent)
	}
	defer svc.results.lost(k)
	out.By = svc.callers.of(x)
	ctx, p, err := svc.inflight.track(parent, x)
	if err != nil {
		f := fault.From(x.Method, err)
		svc.results.fulfil(k, nil, f)
		return x.Failure(f)
	}
	defer svc.inflight.end(p)
	w, f := svc.witness(ctx, x, out)
	if f != nil {
		svc.results.fulfil(k, nil, f)
		return x.Failure(f)
	}
	defer w.Over(ctx)
	if svc.opts.Watch != nil {
		out.Observe = svc.opts.Watch(x.Params, out.Observe)
	}
	if svc.durations != nil {
		x.observe(out)
	}
	serve := svc.callLegacy
	if x.Modern {
		serve = svc.callModern
	}
	result, err := serve(ctx, x, out)
	svc.results.fulfil(k, result, fault.From(x.Method, err))
	if err != nil {
		svc.recordFailure(ctx, err)
		return failed(ctx, x.Message, err)
	}
	return x.Success(svc.confined(x, result))
}

// confined is a result as it may go to its client. What a server lets everybody cache
// stays with a client that has shown who it is, or does not see everything: a cache on
// the way does not know who else may see it (2026-07-28 server/utilities/caching).
func (svc *service) confined(x *exchange, result []byte) []byte {
	if x.Method != mcp.ResourcesRead || svc.who.Kind() <= access.KindUser && svc.backend.May() == policy.Everything {
		return result
	}
	if scope, _ := wire.Text(wire.Member(result, "cacheScope")); scope == "public" {
		return wire.Set(result, []byte(`"private"`), "cacheScope")
	}
	return result
}

// result answers everline/result: the outcome of an earlier call, once it is
// there.
func (svc *service) result(parent context.Context, x *exchange) message.Answer {
	key := ""
	if id, ok := wire.Text(wire.Get(x.Params, "resultId")); ok {
		key = namedKey(id)
	} else if x.Fields.RequestID != nil {
		key = x.sessionKey(x.Fields.RequestID)
	}
	k := svc.results.find(key)
	if k == nil {
		return *x.Refusal(mcp.CodeInvalidParams, "Unknown result: nothing is kept under this id", nil)
	}
	return svc.await(parent, x, k)
}

// await answers with the outcome of another request's call.
func (svc *service) await(parent context.Context, x *exchange, k *kept) message.Answer {
	ctx, p, err := svc.inflight.track(parent, x)
	if err != nil {
		return x.Failure(fault.From(x.Method, err))
	}
	defer svc.inflight.end(p)
	k.waiters.Add(1)
	defer k.waiters.Add(-1)
	select {
	case <-k.done:
	case <-ctx.Done():
		return failed(ctx, x.Message, ctx.Err())
	}
	if k.fault == nil {
		return x.Success(k.raw)
	}
	as := *x.Message
	as.Method = mcp.ToolsCall
	return as.Failure(k.fault)
}
