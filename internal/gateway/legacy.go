package gateway

import (
	"context"
	"slices"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// These capabilities are the same for every client, and always all of them:
// servers come and go, and a client that was told once that there are no
// prompts would never ask again. A list that nobody fills is empty.
const (
	legacyCapabilities = `{"completions":{},"logging":{},"prompts":{"listChanged":true},` +
		`"resources":{"listChanged":true,"subscribe":true},"tools":{"listChanged":true}}`
	modernCapabilities = `{"completions":{},"prompts":{"listChanged":true},` +
		`"resources":{"listChanged":true,"subscribe":true},"tools":{"listChanged":true}}`
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
func (g *Gateway) initialized(rq *request, version string) answer {
	b := append([]byte(`{"jsonrpc":"2.0","id":`), rq.msg.ID...)
	b = wire.AppendString(append(b, `,"result":{"protocolVersion":`...), version)
	b = append(b, `,"capabilities":`...)
	b = append(b, g.offer().legacy(version)...)
	b = append(b, `,"serverInfo":`...)
	b = append(b, g.info...)
	if text := g.backend.Catalog().Instructions(); text != "" {
		b = wire.AppendString(append(b, `,"instructions":`...), text)
	}
	return answer{head: append(b, "}}"...)}
}

// serveLegacy answers the methods that only the older revisions have.
func (g *Gateway) serveLegacy(ctx context.Context, rq *request) answer {
	switch rq.msg.Method {
	case mcp.Initialize:
		if bad := g.ourselves(rq); bad != nil {
			return *bad
		}
		version := negotiate(rq.msg.Params)
		if rq.sess != nil {
			rq.sess.declare(rq.msg.Params)
			rq.sess.agree(version)
		}
		return g.initialized(rq, version)
	case mcp.Ping:
		return rq.result(nil)
	case mcp.LoggingSetLevel:
		return g.setLevel(rq)
	case mcp.ResourcesSubscribe:
		return g.subscribe(ctx, rq)
	case mcp.ResourcesUnsubscribe:
		uri, ok := wire.Text(rq.fields.uri)
		if !ok {
			return *rq.errorAnswer(mcp.CodeInvalidParams, "Invalid params: the uri is missing", nil)
		}
		if rq.sess != nil {
			rq.sess.unsubscribe(uri)
		}
		return rq.result(nil)
	default:
		return g.extend(ctx, rq)
	}
}

func (g *Gateway) setLevel(rq *request) answer {
	rank := mcp.LevelRank(rq.fields.level)
	if rank == 0 {
		return *rq.errorAnswer(mcp.CodeInvalidParams, "Invalid log level", nil)
	}
	if s := rq.sess; s != nil {
		s.out() // log messages go into the outbox
		s.mu.Lock()
		if !s.ended {
			s.level = rank
		}
		s.mu.Unlock()
		g.levels.change(s)
	}
	return rq.result(nil)
}

func (g *Gateway) subscribe(parent context.Context, rq *request) answer {
	uri, ok := wire.Text(rq.fields.uri)
	if !ok || rq.sess == nil {
		return *rq.errorAnswer(mcp.CodeInvalidParams, "Invalid params: the uri is missing", nil)
	}
	ctx, end, err := g.depart(parent, rq)
	if err != nil {
		return rq.failure(fault.From(rq.msg.Method, err))
	}
	defer end()
	ok, err = rq.sess.subscribe(ctx, uri)
	switch {
	case err != nil:
		return rq.failed(ctx, err)
	case !ok:
		return rq.failure(fault.New(fault.Overloaded, rq.msg.Method, "too many subscriptions of one client"))
	default:
		return rq.result(nil)
	}
}

// notice takes a notification, or a response to a request of a server that was
// put to the client. It does not wait.
func (g *Gateway) notice(rq *request) {
	if rq.msg.Method == "" {
		if rq.sess != nil {
			rq.sess.answered(&rq.msg)
		}
		return
	}
	if rq.sess != nil {
		rq.sess.heard(rq.msg.Method, false)
	}
	if rq.msg.Method == mcp.NotifyCancelled {
		rq.cancelNamed()
	}
}
