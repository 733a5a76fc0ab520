package stream

import "time"

// A Reply writes the response to one POST as a stream: what is said before the
// answer, and then the answer. Its Outbox takes the former.
type Reply struct {
	Outbox *Outbox
	o      ReplyOptions
	answer chan []byte // one slot; nil for none
	ended  chan struct{}
}

// ReplyOptions make a Reply. Events and KeepAlive are needed.
type ReplyOptions struct {
	Events    *Events
	KeepAlive time.Duration
	Response  *Response // keeps what is written; nil if the client cannot come back
	Prime     bool      // the client expects an event without data first
}

// NewReply returns a reply, which some goroutine must Run.
func NewReply(o ReplyOptions) *Reply {
	return &Reply{Outbox: NewOutbox(), o: o, answer: make(chan []byte, 1), ended: make(chan struct{})}
}

// Finish hands over the answer, nil for a request that its client has canceled,
// and waits until the stream has ended (basic/patterns/cancellation).
func (r *Reply) Finish(answer []byte) {
	r.answer <- answer
	<-r.ended
}

// Run writes the stream until Finish has brought the answer. A client that is gone
// or does not read ends the writing, not the request.
func (r *Reply) Run() {
	defer close(r.ended)
	out := r.o.Events
	defer out.Close()
	err := out.Open()
	if r.o.Response != nil && r.o.Prime && err == nil {
		err = out.prime(r.o.Response.name)
	}
	idle := time.NewTicker(r.o.KeepAlive)
	defer idle.Stop()
	for {
		select {
		case <-r.Outbox.wake:
			err = r.writeLeft(err)
		case <-idle.C:
			if err == nil {
				err = out.Alive()
			}
		case answer := <-r.answer:
			r.writeAnswer(answer, r.writeLeft(err))
			return
		}
	}
}

// writeLeft writes what waits unless err says that the client is gone, or it has
// come back for the stream elsewhere.
func (r *Reply) writeLeft(err error) error {
	frames, _ := r.Outbox.Take()
	if len(frames) == 0 {
		return err
	}
	kept := r.o.Response
	if kept == nil {
		if err == nil {
			err = r.o.Events.Write(frames)
		}
		return err
	}
	first := kept.put(frames)
	if err != nil || !kept.readBy(0) {
		return err
	}
	return r.o.Events.numbered(kept.name, first, frames)
}

// writeAnswer is writeLeft for the answer. A client that is gone hears nothing, and
// can come back.
func (r *Reply) writeAnswer(answer []byte, err error) {
	kept := r.o.Response
	switch {
	case kept == nil && answer != nil && err == nil:
		_ = r.o.Events.Write([][]byte{answer})
	case kept == nil:
	case answer == nil:
		kept.abandon()
	default:
		if number, mine := kept.finish(answer); err == nil && mine {
			_ = r.o.Events.numbered(kept.name, number, [][]byte{answer})
		}
	}
}
