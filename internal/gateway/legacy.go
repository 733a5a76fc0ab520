package gateway

import (
	"context"
	"slices"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
	"github.com/everline/everline/internal/wire"
)

// negotiate is the version that a legacy session will speak: the client's, if
// we know it, else the newest that we know (2025-11-25 basic/lifecycle,
// Version Negotiation).
func negotiate(params []byte) string {
	wanted, _ := wire.Text(wire.Get(params, "protocolVersion"))
	if slices.Contains(mcp.LegacyVersions, wanted) {
		return wanted
	}
	return mcp.LatestLegacy
}

// initialized is the answer to initialize.
func (svc *service) initialized(m *message.Message, version string) message.Answer {
	b := append([]byte(`{"jsonrpc":"2.0","id":`), m.ID...)
	b = wire.AppendString(append(b, `,"result":{"protocolVersion":`...), version)
	b = append(b, `,"capabilities":`...)
	b = append(b, svc.offer().legacy(version)...)
	b = append(b, `,"serverInfo":`...)
	b = append(b, svc.info...)
	if text := svc.backend.Catalog().Instructions(); text != "" {
		b = wire.AppendString(append(b, `,"instructions":`...), text)
	}
	return message.Answer{Head: append(b, "}}"...)}
}

// serveLegacy answers the methods that only the older revisions have.
func (svc *service) serveLegacy(ctx context.Context, x *exchange) message.Answer {
	switch x.Method {
	case mcp.Initialize:
		if bad := svc.ourselves(x.Message); bad != nil {
			return *bad
		}
		version := negotiate(x.Params)
		if x.sess != nil {
			x.sess.Declare(x.Params)
			x.sess.Agree(version)
		}
		return svc.initialized(x.Message, version)
	case mcp.Ping:
		return x.Success(nil)
	case mcp.LoggingSetLevel:
		return svc.setLevel(x)
	case mcp.ResourcesSubscribe:
		return svc.subscribe(ctx, x)
	case mcp.ResourcesUnsubscribe:
		uri, ok := wire.Text(x.Fields.URI)
		if !ok {
			return *x.Refusal(mcp.CodeInvalidParams, "Invalid params: the uri is missing", nil)
		}
		if x.sess != nil {
			x.sess.Unsubscribe(uri)
			x.sess.Remember()
		}
		return x.Success(nil)
	default:
		return svc.extend(ctx, x)
	}
}

func (svc *service) setLevel(x *exchange) message.Answer {
	rank := mcp.LevelRank(x.Fields.Level)
	if rank == 0 {
		return *x.Refusal(mcp.CodeInvalidParams, "Invalid log level", nil)
	}
	if x.sess != nil {
		x.sess.SetLevel(rank)
	}
	return x.Success(nil)
}

func (svc *service) subscribe(parent context.Context, x *exchange) message.Answer {
	uri, ok := wire.Text(x.Fields.URI)
	if !ok || x.sess == nil {
		return *x.Refusal(mcp.CodeInvalidParams, "Invalid params: the uri is missing", nil)
	}
	ctx, p, err := svc.inflight.track(parent, x)
	if err != nil {
		return x.Failure(fault.From(x.Method, err))
	}
	defer svc.inflight.end(p)
	ok, err = x.sess.Subscribe(ctx, uri)
	switch {
	case err != nil:
		return failed(ctx, x.Message, err)
	case !ok:
		return x.Failure(fault.New(fault.Overloaded, x.Method, "too many subscriptions of one client"))
	default:
		x.sess.Remember()
		return x.Success(nil)
	}
}

// notice takes a notification, or a response to a request of a server that was
// put to the client. It waits for nothing but what pass does.
func (svc *service) notice(x *exchange) {
	if x.Method == "" {
		if x.sess != nil {
			x.sess.Requests.Answered(&x.Message.Message)
		}
		return
	}
	if x.sess != nil {
		x.sess.Heard(x.Method, false)
	}
	if x.Method == mcp.NotifyCancelled && x.sess != nil && x.Fields.RequestID != nil {
		x.sess.Cancel(x.Fields.RequestID)
		svc.inputs.revoke(x.sess.ID(), x.Fields.RequestID)
		return
	}
	svc.pass(x)
}
