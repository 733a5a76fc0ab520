package gateway

import (
	"context"
	"net/http"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/gateway/session"
	"github.com/everline/everline/internal/message"
)

// postBatch serves a JSON-RPC batch, which the 2025-03-26 revision alone has:
// the answers to its requests, in their order, as one array.
func (g *Gateway) postBatch(r *http.Request, body []byte, p *post) {
	s := p.sess
	if s == nil {
		if s = g.sessionOf(p.w, r); s == nil {
			return
		}
		defer g.sessions.Unpin(s)
	}
	if g.closing() {
		g.ending(p.w, &message.Message{})
		return
	}
	p.sess = nil // whose client cannot come back for the answers
	frames, bad := message.SplitBatch(body, s.Protocol(), g.opts.MaxInFlight)
	if bad != nil {
		writeJSON(p.w, g.malformed(bad))
		return
	}
	answers := g.startBatch(context.WithoutCancel(r.Context()), s, r.Context().Done(), frames)()
	if len(answers) == 0 {
		p.w.WriteHeader(http.StatusAccepted)
		return
	}
	p.finish(message.Answer{Head: message.JoinBatch(answers)})
}

// startBatch begins to serve all requests of a batch at the same time; wait
// returns the answers. Each is registered when it returns, so that a cancel that
// comes right behind finds it.
func (svc *service) startBatch(ctx context.Context, s *session.Session, gone <-chan struct{}, frames [][]byte) (wait func() []*message.Answer) {
	notice := func(m *message.Message, _ []byte) { svc.notice(&exchange{Message: m, sess: s}) }
	return message.StartBatch(frames, notice, func(m *message.Message, _ []byte) func() message.Answer {
		x := svc.exchange(m)
		x.sess, x.gone, x.tracked = s, gone, true
		ctx, p, err := svc.inflight.begin(ctx, x)
		if err != nil {
			return func() message.Answer { return x.Failure(fault.From(m.Method, err)) }
		}
		return func() message.Answer {
			defer svc.inflight.end(p)
			return svc.serve(ctx, x)
		}
	})
}
