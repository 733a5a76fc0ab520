package gateway

import "sync"

// Bounds of what one stream may fall behind. Changes of lists are not counted:
// they are one flag per kind (see news).
const (
	maxLogs       = 256       // log messages that wait; further ones are dropped
	maxAnswers    = 1024      // answers that wait, on a connection that carries them
	maxWaiting    = 128 << 20 // bytes of answers that wait
	maxSubscribed = 1024      // resources that one client may subscribe to
)

// A feed collects what is to be told on one stream until the stream's writer
// takes it. Nothing that puts into it blocks, and it is bounded: one entry per
// subscribed resource, maxLogs log messages, maxAnswers answers. A client that
// lets answers pile up is cut off.
type feed struct {
	wake chan struct{} // one slot: something was put in, or the feed was cut

	mu      sync.Mutex // guards the rest; nothing waits under it
	order   []string   // URIs with an update that was not taken, oldest first
	updates map[string][]byte
	logs    [][]byte
	answers [][]byte
	bytes   int  // of answers
	cut     bool // the client did not read; nothing more is taken
	closed  bool // nobody reads any more
}

func newFeed() *feed { return &feed{wake: make(chan struct{}, 1)} }

func (f *feed) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// update puts in a resources/updated frame; a newer one for the same resource
// replaces one that was not taken yet.
func (f *feed) update(uri string, frame []byte) {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return
	}
	if f.updates == nil {
		f.updates = map[string][]byte{}
	}
	if _, waits := f.updates[uri]; !waits {
		f.order = append(f.order, uri)
	}
	f.updates[uri] = frame
	f.mu.Unlock()
	f.signal()
}

// forget drops an update that was not taken: the client unsubscribed.
func (f *feed) forget(uri string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, waits := f.updates[uri]; !waits {
		return
	}
	delete(f.updates, uri)
	for i, u := range f.order {
		if u == uri {
			f.order = append(f.order[:i], f.order[i+1:]...)
			return
		}
	}
}

// log puts in a frame that may be lost: a log message, or progress.
func (f *feed) log(frame []byte) {
	f.mu.Lock()
	if f.closed || len(f.logs) >= maxLogs {
		f.mu.Unlock()
		return
	}
	f.logs = append(f.logs, frame)
	f.mu.Unlock()
	f.signal()
}

// answer puts in a frame that must not be lost.
func (f *feed) answer(frame []byte) {
	f.mu.Lock()
	if !f.closed && !f.cut {
		if len(f.answers) >= maxAnswers || f.bytes+len(frame) > maxWaiting && len(f.answers) > 0 {
			f.cut = true
		} else {
			f.answers = append(f.answers, frame)
			f.bytes += len(frame)
		}
	}
	f.mu.Unlock()
	f.signal()
}

// take returns what waits, in the order in which it is to be written: a log
// message or progress that came before an answer is written before it. ok is
// false once the client was cut off.
func (f *feed) take() (frames [][]byte, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.order) + len(f.logs) + len(f.answers)
	if n == 0 || f.cut {
		return nil, !f.cut
	}
	frames = make([][]byte, 0, n)
	for _, uri := range f.order {
		frames = append(frames, f.updates[uri])
	}
	clear(f.updates)
	f.order = f.order[:0]
	frames = append(append(frames, f.logs...), f.answers...)
	f.logs, f.answers, f.bytes = nil, nil, 0
	return frames, true
}

// close drops what waits and all that is put in later.
func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.order, f.updates, f.logs, f.answers, f.bytes = nil, nil, nil, nil, 0
}
