package message

import (
	"slices"
	"sync"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// SplitBatch returns the messages of a batch, or the answer that refuses it.
func SplitBatch(frame []byte, version string, limit int) ([][]byte, *Answer) {
	if version != mcp.BatchVersion && version != mcp.FirstVersion {
		return nil, Refuse(nil, mcp.CodeInvalidRequest, "Invalid request: there are batches in sessions of protocol version "+mcp.BatchVersion+" and before alone")
	}
	all, ok := wire.Batch(frame)
	if !ok {
		_, bad := ParseLegacy(frame) // says where it is no JSON
		return nil, bad
	}
	var frames [][]byte
	for f := range all {
		if len(frames) == limit {
			return nil, Refuse(nil, mcp.CodeInvalidRequest, "Invalid request: the batch is too large")
		}
		frames = append(frames, f)
	}
	if len(frames) == 0 {
		return nil, Refuse(nil, mcp.CodeInvalidRequest, "Invalid request: the batch is empty")
	}
	return frames, nil
}

// StartBatch calls notice with each notification of a batch and begin with each
// request, in their order; what begin returns runs beside. wait returns the
// answers, in the order of the requests.
func StartBatch(
	frames [][]byte, notice func(m *Message, frame []byte), begin func(m *Message, frame []byte) (serve func() Answer),
) (wait func() []*Answer) {
	var answers []*Answer
	var all sync.WaitGroup
	for _, f := range frames {
		m, bad := ParseLegacy(f)
		switch {
		case bad != nil:
			answers = append(answers, bad)
		case !m.IsRequest():
			notice(m, f)
		case m.Method == mcp.Initialize:
			answers = append(answers, m.Refusal(mcp.CodeInvalidRequest, "Invalid request: initialize in a batch", nil))
		default:
			a, serve := new(Answer), begin(m, f)
			answers = append(answers, a)
			all.Go(func() { *a = serve() })
		}
	}
	return func() []*Answer {
		all.Wait()
		return slices.DeleteFunc(answers, func(a *Answer) bool { return a.Silent })
	}
}

func JoinBatch(answers []*Answer) []byte {
	out := []byte{'['}
	for i, a := range answers {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, a.Frame()...)
	}
	return append(out, ']')
}
