package stream

import (
	"slices"
	"sync"
)

// Bounds of what one stream may fall behind. Changes of lists are not counted:
// they are one number per list (see ListVersions).
const (
	MaxSubscribed = 1024 // resources that one client may subscribe to

	maxLogs     = 256       // log messages that wait; further ones are dropped
	maxLogBytes = 8 << 20   // bytes of them
	maxFrames   = 1024      // frames that must not be lost and wait
	maxWaiting  = 128 << 20 // bytes of them and of updates
)

// An Outbox collects what is to be told on one stream until the stream's writer
// takes it. Nothing that puts into it blocks, and it is bounded: one entry per
// subscribed resource, maxLogs log messages, maxFrames other frames, and the bytes
// of each; one that is larger than all may wait alone. A client that lets what must
// not be lost pile up is cut off.
type Outbox struct {
	wake chan struct{} // one slot: something was put in, or the client was cut off

	mu      sync.Mutex // guards the rest; nothing waits under it
	order   []string   // URIs with an update that was not taken, oldest first
	updates map[string][]byte
	logs    []log
	frames  [][]byte
	logged  int  // bytes of logs
	bytes   int  // of frames and updates
	cut     bool // the client did not read; nothing more is put in until its stream has ended
	closed  bool // nobody reads any more
}

// A log is a frame that may be lost, and how many of frames were put in before it.
type log struct {
	frame  []byte
	behind int
}

// NewOutbox returns an empty outbox.
func NewOutbox() *Outbox { return &Outbox{wake: make(chan struct{}, 1)} }

// Wake has a value when there may be something to take.
func (o *Outbox) Wake() <-chan struct{} { return o.wake }

// Signal wakes the writer.
func (o *Outbox) Signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// Update puts in a resources/updated frame; a newer one for the same resource
// replaces one that was not taken yet.
func (o *Outbox) Update(uri string, frame []byte) {
	o.mu.Lock()
	if o.closed || o.cut {
		o.mu.Unlock()
		return
	}
	if o.updates == nil {
		o.updates = map[string][]byte{}
	}
	old, waits := o.updates[uri]
	if !waits {
		o.order = append(o.order, uri)
	}
	o.bytes += len(frame) - len(old)
	o.updates[uri] = frame
	if o.bytes > maxWaiting && len(o.updates)+len(o.frames) > 1 {
		o.cutLocked()
	}
	o.mu.Unlock()
	o.Signal()
}

// Forget drops an update that was not taken: the client unsubscribed.
func (o *Outbox) Forget(uri string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	old, waits := o.updates[uri]
	if !waits {
		return
	}
	o.bytes -= len(old)
	delete(o.updates, uri)
	o.order = slices.DeleteFunc(o.order, func(u string) bool { return u == uri })
}

// Log puts in a frame that may be lost: a log message, or progress.
func (o *Outbox) Log(frame []byte) {
	o.mu.Lock()
	if o.closed || o.cut || len(o.logs) >= maxLogs || o.logged+len(frame) > maxLogBytes && len(o.logs) > 0 {
		o.mu.Unlock()
		return
	}
	o.logs = append(o.logs, log{frame, len(o.frames)})
	o.logged += len(frame)
	o.mu.Unlock()
	o.Signal()
}

// Send puts in a frame that must not be lost: an answer, or a request to the
// client.
func (o *Outbox) Send(frame []byte) {
	o.mu.Lock()
	if !o.closed && !o.cut {
		o.frames = append(o.frames, frame)
		o.bytes += len(frame)
		if len(o.frames) > maxFrames || o.bytes > maxWaiting && len(o.updates)+len(o.frames) > 1 {
			o.cutLocked()
		}
	}
	o.mu.Unlock()
	o.Signal()
}

// SendAllChanged puts in that every list may have changed, for a client whose
// lists are of another session.
func (o *Outbox) SendAllChanged() { o.SendChanged(AllLists) }

// SendChanged puts in that these lists have changed, which is not told to others.
func (o *Outbox) SendChanged(lists Lists) {
	for method := range lists.Methods() {
		o.Send(plainNote(method))
	}
}

// cutLocked gives the client up, and what waits for it.
func (o *Outbox) cutLocked() {
	o.cut = true
	o.dropLocked()
}

func (o *Outbox) dropLocked() {
	o.order, o.updates, o.logs, o.frames, o.logged, o.bytes = nil, nil, nil, nil, 0, 0
}

// Take returns what waits, in the order in which it is to be written: updates, and then
// everything else in the order in which it was put in. ok is
// false, once, if the client was cut off: its stream ends, and what comes after
// is for the next one.
func (o *Outbox) Take() (frames [][]byte, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cut {
		o.cut = false
		return nil, false
	}
	n := len(o.order) + len(o.logs) + len(o.frames)
	if n == 0 {
		return nil, true
	}
	frames = make([][]byte, 0, n)
	for _, uri := range o.order {
		frames = append(frames, o.updates[uri])
	}
	clear(o.updates)
	o.order = o.order[:0]
	logs := o.logs
	for i, frame := range o.frames {
		for len(logs) > 0 && logs[0].behind <= i {
			frames, logs = append(frames, logs[0].frame), logs[1:]
		}
		frames = append(frames, frame)
	}
	for _, l := range logs {
		frames = append(frames, l.frame)
	}
	o.logs, o.frames, o.logged, o.bytes = nil, nil, 0, 0
	return frames, true
}

// Close drops what waits and all that is put in later.
func (o *Outbox) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.dropLocked()
}

// WriteLeft writes what waits in the outbox.
func (o *Outbox) WriteLeft(out Sink) error {
	frames, _ := o.Take()
	if len(frames) == 0 {
		return nil
	}
	return out.Write(frames)
}

// Forward is a sink that puts frames into the outbox of another stream.
func (o *Outbox) Forward() Sink { return forward{o} }

type forward struct{ to *Outbox }

func (f forward) Write(frames [][]byte) error {
	for _, frame := range frames {
		f.to.Send(frame)
	}
	return nil
}

func (forward) Alive() error { return nil }
