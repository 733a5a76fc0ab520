package gateway

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/gateway/session"
	"github.com/everline/everline/internal/gateway/task"
	"github.com/everline/everline/internal/rounds"
	"github.com/everline/everline/internal/wire"
)

// maxTaskWaits bounds the tasks/result that are out for clients of the extension.
const maxTaskWaits = 1024

// taskWaits are the tasks of 2025-11-25 that want to know something of clients of the
// extension. A server asks while somebody waits for its result: that is everline, since
// the client does not.
type taskWaits struct {
	mu     sync.Mutex // guards the rest; ordered before the locks of waits; nothing waits under it
	all    map[*task.Task]*taskWait
	closed bool
	work   sync.WaitGroup
}

// A taskWait is the tasks/result of one task. Its goroutine ends with the server's
// answer, when the task is forgotten, or with the gateway.
type taskWait struct {
	*caller // whose questions they are: of the request that has found them
	t       *task.Task
	cancel  context.CancelFunc
	asking  chan struct{} // one slot: there are questions
	over    chan struct{} // closed at the end

	mu   sync.Mutex // guards open; nothing waits under it
	open []*question
}

// of is the wait for a task; nil for none.
func (ws *taskWaits) of(t *task.Task) *taskWait {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.all[t]
}

// begin returns the wait for a task, a new one where there is none, for which run asks
// for the result. The caller must see to it that cancel is called once t is forgotten.
func (ws *taskWaits) begin(c *caller, t *task.Task, run func(ctx context.Context, w *taskWait)) (*taskWait, error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.all[t]; w != nil {
		return w, nil
	}
	if ws.closed {
		return nil, errClosing
	}
	if len(ws.all) >= maxTaskWaits {
		return nil, fault.New(fault.Overloaded, c.Method, "too many tasks wait for their clients")
	}
	ctx, cancel := context.WithCancel(context.Background()) // it outlives the request that has found the questions
	w := &taskWait{caller: c, t: t, cancel: cancel, asking: make(chan struct{}, 1), over: make(chan struct{})}
	if ws.all == nil {
		ws.all = map[*task.Task]*taskWait{}
	}
	ws.all[t] = w
	ws.work.Go(func() {
		defer ws.end(w)
		run(ctx, w)
	})
	return w, nil
}

func (ws *taskWaits) end(w *taskWait) {
	w.cancel()
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.all, w.t)
	close(w.over)
}

// close ends all waits, and waits for them as long as for any canceled request.
func (ws *taskWaits) close() {
	ws.mu.Lock()
	ws.closed = true
	for _, w := range ws.all {
		w.cancel()
	}
	ws.mu.Unlock()
	awaitCanceled(&ws.work)
}

// ID is that of the client that the task was begun for.
func (w *taskWait) ID() uint64 {
	if w.t.Client != 0 {
		return w.t.Client
	}
	return w.id
}

// Ask holds a question until tasks/update brings the answer.
func (w *taskWait) Ask(ctx context.Context, method string, params []byte) ([]byte, error) {
	if lacking := w.serves.Lacks(method, params); lacking != "" {
		return nil, session.Undeclared(method, lacking)
	}
	kind, _, _ := strings.Cut(method, "/")
	q := &question{
		key: kind + "-" + rand.Text(), method: method, params: task.Relate(params, w.t.ServerID, w.t.ID), answer: make(chan []byte, 1),
	}
	w.mu.Lock()
	full := len(w.open) >= rounds.MaxInputs
	if !full {
		w.open = append(w.open, q)
	}
	w.mu.Unlock()
	if full {
		return nil, fault.New(fault.Overloaded, method, "too many requests of one task wait for its client")
	}
	select {
	case w.asking <- struct{}{}:
	default:
	}
	select {
	case raw := <-q.answer:
		return task.Relate(raw, w.t.ID, w.t.ServerID), nil
	case <-ctx.Done():
		w.mu.Lock()
		defer w.mu.Unlock()
		w.open = slices.DeleteFunc(w.open, func(o *question) bool { return o == q })
		return nil, fault.From(method, ctx.Err())
	}
}

// Notify passes nothing on: the request whose stream it would be for is over.
func (w *taskWait) Notify(string, []byte) {}

// answer brings what tasks/update has. A key that nobody waits for is passed over.
func (w *taskWait) answer(responses []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = slices.DeleteFunc(w.open, func(q *question) bool {
		raw := wire.Get(responses, q.key)
		if !wire.IsObject(raw) {
			return false
		}
		q.answer <- raw // has a slot, and a question is answered once
		return true
	})
}

// gather waits a moment for the questions of a server that has just been asked for the
// result.
func (w *taskWait) gather(ctx context.Context) {
	if w.asks() {
		return
	}
	limit := time.NewTimer(refusedGap)
	defer limit.Stop()
	select {
	case <-w.asking:
		limit.Reset(gatherGap)
	case <-w.over:
		return
	case <-limit.C:
		return
	case <-ctx.Done():
		return
	}
	select {
	case <-limit.C:
	case <-w.over:
	case <-ctx.Done():
	}
}

func (w *taskWait) asks() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.open) > 0
}

// show is the state of a task that goes on, with its questions. Without any there is
// nothing that its client could do: it works.
func (w *taskWait) show(state []byte) []byte {
	status, asks := `"working"`, []byte(nil)
	if w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.open) > 0 {
			status, asks = `"input_required"`, appendQuestions(nil, w.open)
		}
	}
	state = wire.Set(state, []byte(status), "status")
	if asks != nil {
		state = wire.Set(state, asks, "inputRequests")
	}
	return state
}
