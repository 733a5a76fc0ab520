package gateway

import (
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline/internal/gateway/session"
	"github.com/everline/everline/internal/gateway/stream"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
)

// replyOptions are what the responses of one endpoint have in common.
type replyOptions struct {
	keepAlive, writeTimeout time.Duration
	guarded                 func(what string, fn func()) error
	posts                   *atomic.Int64 // responses that are streams
}

// A post is the response to one POST. It is plain JSON, unless something has
// to be said before the answer: then it becomes a stream, which one goroutine
// writes until finish has handed it the answer.
type post struct {
	o      *replyOptions
	w      http.ResponseWriter
	accept accepted
	sess   *session.Session // whose client may come back for the stream; nil for one that cannot
	method string           // of the one request; "" of a batch
	id     []byte           // of the one request

	mu       sync.Mutex // guards the rest; nothing waits under it
	finished bool
	reply    *stream.Reply    // the stream; nil while nothing has been said
	kept     *stream.Response // set with reply; nil if the stream cannot be resumed
	timer    *time.Timer
}

// Log says something before the answer. It does not block, and what comes
// after the answer is dropped.
func (p *post) Log(frame []byte) {
	if p.begin() {
		p.reply.Outbox.Log(frame)
	}
}

// Send is Log for what must not be lost.
func (p *post) Send(frame []byte) {
	if p.begin() {
		p.reply.Outbox.Send(frame)
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
	if p.reply == nil {
		if p.sess != nil && p.sess.Resumable() {
			p.kept = p.sess.Responses.Open(p.method, p.id)
		}
		p.o.posts.Add(1)
		p.reply = stream.NewReply(stream.ReplyOptions{
			Events: stream.NewEvents(p.w, p.o.writeTimeout), KeepAlive: p.o.keepAlive, Response: p.kept, Prime: p.kept != nil && p.sess.Primed(),
		})
		go func() { // ends when finish brings the answer, and waits for it
			_ = p.o.guarded("a response stream", p.reply.Run) // ends the stream
		}()
	}
	return true
}

// followed tells whether a client that lost the response has come back for it.
func (p *post) followed() bool {
	p.mu.Lock()
	kept := p.kept
	p.mu.Unlock()
	return kept != nil && kept.Followed()
}

// finish sends the answer and ends the response. A request that its client has
// canceled has no answer: its stream ends (basic/patterns/cancellation).
func (p *post) finish(a message.Answer) {
	p.mu.Lock()
	p.finished = true
	reply := p.reply
	if p.timer != nil {
		p.timer.Stop()
	}
	p.mu.Unlock()
	if reply != nil {
		defer p.o.posts.Add(-1)
	}
	switch {
	case reply != nil && a.Silent:
		reply.Finish(nil)
	case reply != nil:
		reply.Finish(a.Frame())
	case a.Silent && !p.accept.events:
		p.w.WriteHeader(http.StatusAccepted)
	case !a.Silent && (p.accept.json || a.Status >= 400):
		writeJSON(p.w, &a)
	default:
		out := stream.NewEvents(p.w, p.o.writeTimeout)
		defer out.Close()
		if out.Open() == nil && !a.Silent {
			_ = out.Write([][]byte{a.Frame()}) // a client that is gone hears nothing
		}
	}
}

var jsonType = []string{mcp.TypeJSON}

const joinBelow = 256 << 10 // an answer below is written at once, which saves more than copying it costs

// joins has the memory in which answers below joinBelow are joined. A fresh 64
// KiB for each would cost more than a write.
var joins = sync.Pool{New: func() any { return new([]byte) }}

// seconds is a time in whole seconds, not less.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// writeJSON writes an answer with its length. How long that may take is the
// Listener's matter.
func writeJSON(w http.ResponseWriter, a *message.Answer) {
	h := w.Header()
	size := a.Size()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(size)}
	if a.RetryAfter > 0 {
		h["Retry-After"] = []string{strconv.Itoa(seconds(a.RetryAfter))}
	}
	if a.Status != 0 {
		w.WriteHeader(a.Status)
	}
	parts := [][]byte{a.Head, a.Body, a.Tail}
	if size < joinBelow {
		buf := joins.Get().(*[]byte)
		defer joins.Put(buf)
		*buf = append(append(append((*buf)[:0], a.Head...), a.Body...), a.Tail...)
		parts = [][]byte{*buf}
	}
	for _, part := range parts {
		if _, err := w.Write(part); err != nil {
			return // a client that is gone hears nothing
		}
	}
}
