package gateway

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// A post is the response to one POST. It is plain JSON, unless something has
// to be said before the answer: then it becomes a stream, which one goroutine
// writes until finish has handed it the answer.
type post struct {
	g      *Gateway
	w      http.ResponseWriter
	accept accepted
	sess   *session // whose client may come back for the stream; nil for one that cannot

	mu       sync.Mutex // guards the rest; nothing waits under it
	finished bool
	feed     *feed       // nil while nothing has been said
	kept     *response   // set with feed; nil if the stream cannot be resumed
	last     chan answer // the answer, for the goroutine
	ended    chan struct{}
	timer    *time.Timer
}

// emit says something before the answer. It does not block, and what comes
// after the answer is dropped.
func (p *post) emit(frame []byte) {
	if p.begin() {
		p.feed.log(frame)
	}
}

// tell is emit for what must not be lost.
func (p *post) tell(frame []byte) {
	if p.begin() {
		p.feed.answer(frame)
	}
}

// streamAfter makes the response a stream when the answer takes longer, so that
// nothing in between gives the connection up, and that a client which loses it
// can come back.
func (p *post) streamAfter(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(d, func() { p.begin() })
}

// begin makes the response a stream; false if the answer is out already.
func (p *post) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.finished {
		return false
	}
	if p.feed == nil {
		p.feed = newFeed()
		p.last = make(chan answer, 1)
		p.ended = make(chan struct{})
		if p.sess != nil && p.sess.resumable() {
			p.kept = p.sess.respond()
		}
		go func() { // ends when finish sends the answer; finish waits for it
			defer close(p.ended)
			_ = p.g.guarded("a response stream", p.run) // ends the stream
		}()
	}
	return true
}

// followed tells whether a client that lost the response has come back for it.
func (p *post) followed() bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	kept := p.kept
	p.mu.Unlock()
	return kept != nil && kept.followers.Load() > 0
}

// run writes the stream. A client that is gone or does not read ends the
// writing, not the request.
func (p *post) run() {
	out := p.g.events(p.w)
	defer out.done()
	err := out.open()
	if p.kept != nil && err == nil && p.sess.primed() {
		err = out.prime(p.kept.prefix())
	}
	idle := time.NewTicker(p.g.opts.KeepAlive)
	defer idle.Stop()
	for {
		select {
		case <-p.feed.wake:
			if frames, _ := p.feed.take(); len(frames) > 0 {
				err = p.write(out, frames, err)
			}
		case <-idle.C:
			if err == nil {
				err = out.alive()
			}
		case a := <-p.last:
			frames, _ := p.feed.take()
			if len(frames) > 0 {
				err = p.write(out, frames, err)
			}
			if a.silent {
				p.kept.abandon()
			} else {
				p.writeLast(out, a.frame(), err)
			}
			return
		}
	}
}

// write writes frames unless err says that the client is gone, or it has come
// back for the stream elsewhere.
func (p *post) write(out *eventStream, frames [][]byte, err error) error {
	if p.kept == nil {
		if err == nil {
			err = out.write(frames)
		}
		return err
	}
	first := p.kept.put(frames)
	if err != nil || !p.kept.readBy(0) {
		return err
	}
	return out.numbered(p.kept.prefix(), first, frames)
}

// writeLast is write for the answer.
func (p *post) writeLast(out *eventStream, frame []byte, err error) {
	frames := [][]byte{frame}
	if p.kept == nil {
		if err == nil {
			_ = out.write(frames) // a client that is gone hears nothing
		}
		return
	}
	number, mine := p.kept.finish(frame)
	if err == nil && mine {
		_ = out.numbered(p.kept.prefix(), number, frames) // it can come back
	}
}

// finish sends the answer and ends the response. A request that its client has
// canceled has no answer: its stream ends (basic/patterns/cancellation).
func (p *post) finish(a answer) {
	p.mu.Lock()
	p.finished = true
	streaming := p.feed != nil
	if p.timer != nil {
		p.timer.Stop()
	}
	p.mu.Unlock()
	switch {
	case streaming:
		p.last <- a
		<-p.ended
	case a.silent && !p.accept.events:
		p.w.WriteHeader(http.StatusAccepted)
	case !a.silent && (p.accept.json || a.status >= 400):
		writeJSON(p.w, &a)
	default:
		out := p.g.events(p.w)
		defer out.done()
		if out.open() == nil && !a.silent {
			_ = out.write([][]byte{a.frame()}) // a client that is gone hears nothing
		}
	}
}

const joinBelow = 256 << 10 // an answer below is written at once, which saves more than copying it costs

// joins has the memory in which answers below joinBelow are joined. A fresh 64
// KiB for each would cost more than a write.
var joins = sync.Pool{New: func() any { return new([]byte) }}

// writeJSON writes an answer with its length. How long that may take is the
// Listener's matter.
func writeJSON(w http.ResponseWriter, a *answer) {
	h := w.Header()
	size := a.size()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(size)}
	if a.status != 0 {
		w.WriteHeader(a.status)
	}
	parts := [][]byte{a.head, a.body, a.tail}
	if size < joinBelow {
		buf := joins.Get().(*[]byte)
		defer joins.Put(buf)
		*buf = append(append(append((*buf)[:0], a.head...), a.body...), a.tail...)
		parts = [][]byte{*buf}
	}
	for _, part := range parts {
		if _, err := w.Write(part); err != nil {
			return // a client that is gone hears nothing
		}
	}
}
