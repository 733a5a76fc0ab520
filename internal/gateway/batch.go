package gateway

import (
	"context"
	"net/http"
	"sync"
)

// postBatch serves a JSON-RPC batch, which the 2025-03-26 revision alone has:
// the answers to its requests, in their order, as one array.
func (g *Gateway) postBatch(w http.ResponseWriter, r *http.Request, frames [][]byte, accept accepted) {
	s := g.sessionOf(w, r)
	if s == nil {
		return
	}
	defer g.table.unpin(s)
	if v := s.protocol(); v != batchVersion && v != firstVersion {
		g.reject(w, http.StatusBadRequest, codeInvalidRequest, "Invalid request: protocol version "+v+" has no batches")
		return
	}
	if len(frames) == 0 || len(frames) > g.opts.MaxInFlight {
		g.reject(w, http.StatusBadRequest, codeInvalidRequest, "Invalid request: an empty or too large batch")
		return
	}
	answers := g.serveBatch(context.WithoutCancel(r.Context()), s, frames)
	if len(answers) == 0 {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	p := &post{g: g, w: w, accept: accept}
	p.finish(answer{head: joinBatch(answers)})
}

// serveBatch serves all requests of a batch at the same time.
func (g *Gateway) serveBatch(ctx context.Context, s *session, frames [][]byte) []*answer {
	var answers []*answer
	var all sync.WaitGroup
	for _, f := range frames {
		rq, bad := parse(f)
		switch {
		case bad != nil:
			answers = append(answers, bad)
		case !rq.msg.IsRequest():
			rq.sess = s
			g.notice(rq)
		case rq.msg.Method == methodInitialize:
			answers = append(answers, rq.errorAnswer(codeInvalidRequest, "Invalid request: initialize in a batch", nil))
		default:
			rq.sess = s
			a := new(answer)
			answers = append(answers, a)
			all.Go(func() { *a = g.serve(ctx, rq) })
		}
	}
	all.Wait()
	return answers
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
