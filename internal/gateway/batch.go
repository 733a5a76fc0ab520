package gateway

import (
	"context"
	"net/http"
	"slices"
	"sync"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// postBatch serves a JSON-RPC batch, which the 2025-03-26 revision alone has:
// the answers to its requests, in their order, as one array.
func (g *Gateway) postBatch(r *http.Request, body []byte, p *post) {
	s := p.sess
	if s == nil {
		if s = g.sessionOf(p.w, r); s == nil {
			return
		}
		defer g.table.unpin(s)
	}
	if g.closing() {
		g.ending(p.w, &message{})
		return
	}
	p.sess = nil // whose client cannot come back for the answers
	frames, bad := split(body, s.protocol(), g.opts.MaxInFlight)
	if bad != nil {
		writeJSON(p.w, bad)
		return
	}
	answers := g.startBatch(context.WithoutCancel(r.Context()), s, r.Context().Done(), frames)()
	if len(answers) == 0 {
		p.w.WriteHeader(http.StatusAccepted)
		return
	}
	p.finish(answer{head: joinBatch(answers)})
}

// split returns the messages of a batch, or the answer that refuses it.
func split(frame []byte, version string, limit int) ([][]byte, *answer) {
	if version != mcp.BatchVersion && version != mcp.FirstVersion {
		return nil, refuse(nil, mcp.CodeInvalidRequest, "Invalid request: there are batches in sessions of protocol version "+mcp.BatchVersion+" and before alone")
	}
	all, ok := wire.Batch(frame)
	if !ok {
		_, bad := parse(frame) // says where it is no JSON
		return nil, bad
	}
	var frames [][]byte
	for f := range all {
		if len(frames) == limit {
			return nil, refuse(nil, mcp.CodeInvalidRequest, "Invalid request: the batch is too large")
		}
		frames = append(frames, f)
	}
	if len(frames) == 0 {
		return nil, refuse(nil, mcp.CodeInvalidRequest, "Invalid request: the batch is empty")
	}
	return frames, nil
}

// startBatch begins to serve all requests of a batch at the same time; wait
// returns the answers. Each is registered when it returns, so that a cancel that
// comes right behind finds it.
func (g *Gateway) startBatch(ctx context.Context, s *session, gone <-chan struct{}, frames [][]byte) (wait func() []*answer) {
	notice := func(m *message, _ []byte) { g.notice(&exchange{message: m, sess: s}) }
	return startBatch(frames, notice, func(m *message, _ []byte) func() answer {
		x := g.exchange(m)
		x.sess, x.gone, x.tracked = s, gone, true
		ctx, p, err := g.inflight.begin(ctx, x)
		if err != nil {
			return func() answer { return x.failure(fault.From(m.msg.Method, err)) }
		}
		return func() answer {
			defer g.inflight.end(p)
			return g.serve(ctx, x)
		}
	})
}

// startBatch calls notice with each notification of a batch and begin with each
// request, in their order; what begin returns runs beside. wait returns the
// answers, in the order of the requests.
func startBatch(
	frames [][]byte, notice func(m *message, frame []byte), begin func(m *message, frame []byte) (serve func() answer),
) (wait func() []*answer) {
	var answers []*answer
	var all sync.WaitGroup
	for _, f := range frames {
		m, bad := parse(f)
		switch {
		case bad != nil:
			answers = append(answers, bad)
		case !m.msg.IsRequest():
			notice(m, f)
		case m.msg.Method == mcp.Initialize:
			answers = append(answers, m.errorAnswer(mcp.CodeInvalidRequest, "Invalid request: initialize in a batch", nil))
		default:
			a, serve := new(answer), begin(m, f)
			answers = append(answers, a)
			all.Go(func() { *a = serve() })
		}
	}
	return func() []*answer {
		all.Wait()
		return slices.DeleteFunc(answers, func(a *answer) bool { return a.silent })
	}
}

func joinBatch(answers []*answer) []byte {
	out := []byte{'['}
	for i, a := range answers {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, a.frame()...)
	}
	return append(out, ']')
}
