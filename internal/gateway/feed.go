package gateway

import "sync"

// Bounds of what one stream may fall behind. Changes of lists are not counted:
// they are one flag per kind (see news).
const (
	maxLogs       = 256       // log messages that wait; further ones are dropped
	maxLogBytes   = 8 << 20   // bytes of them
	maxAnswers    = 1024      // answers that wait, on a connection that carries them
	maxWaiting    = 128 << 20 // bytes of answers and updates that wait
	maxSubscribed = 1024      // resources that one client may subscribe to
)

// A feed collects what is to be told on one stream until the stream's writer
// takes it. Nothing that puts into it blocks, and it is bounded: one entry per
// subscribed resource, maxLogs log messages, maxAnswers answers, and the bytes of
// each; one that is larger than all may wait alone. A client that lets answers
// or updates pile up is cut off.
type feed struct {
	wake chan struct{} // one slot: something was put in, or the feed was cut

	mu      sync.Mutex // guards the rest; nothing waits under it
	order   []string   // URIs with an update that was not taken, oldest first
	updates map[string][]byte
	logs    [][]byte
	answers [][]byte
	logged  int  // bytes of logs
	bytes   int  // of answers and updates
	cut     bool // the client did not read; nothing more is put in until that was told
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
	if f.closed || f.cut {
		f.mu.Unlock()
		return
	}
	if f.updates == nil {
		f.updates = map[string][]byte{}
	}
	old, waits := f.updates[uri]
	if !waits {
		f.order = append(f.order, uri)
	}
	f.bytes += len(frame) - len(old)
	f.updates[uri] = frame
	if f.bytes > maxWaiting && len(f.updates)+len(f.answers) > 1 {
		f.cutLocked()
	}
	f.mu.Unlock()
	f.signal()
}

// forget drops an update that was not taken: the client unsubscribed.
func (f *feed) forget(uri string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old, waits := f.updates[uri]
	if !waits {
		return
	}
	f.bytes -= len(old)
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
	if f.closed || f.cut || len(f.logs) >= maxLogs || f.logged+len(frame) > maxLogBytes && len(f.logs) > 0 {
		f.mu.Unlock()
		return
	}
	f.logs = append(f.logs, frame)
	f.logged += len(frame)
	f.mu.Unlock()
	f.signal()
}

// answer puts in a frame that must not be lost.
func (f *feed) answer(frame []byte) {
	f.mu.Lock()
	if !f.closed && !f.cut {
		f.answers = append(f.answers, frame)
		f.bytes += len(frame)
		if len(f.answers) > maxAnswers || f.bytes > maxWaiting && len(f.updates)+len(f.answers) > 1 {
			f.cutLocked()
		}
	}
	f.mu.Unlock()
	f.signal()
}

// announceAll puts in that every list may have changed, for a client whose lists
// are of another session.
func (f *feed) announceAll() {
	allChanged.each(func(method string) { f.answer(plainNote(method)) })
}

// cutLocked gives the client up, and what waits for it.
func (f *feed) cutLocked() {
	f.cut = true
	f.dropLocked()
}

func (f *feed) dropLocked() {
	f.order, f.updates, f.logs, f.answers, f.logged, f.bytes = nil, nil, nil, nil, 0, 0
}

// take returns what waits, in the order in which it is to be written: a log
// message or progress that came before an answer is written before it. ok is
// false, once, if the client was cut off: its stream ends, and what comes after
// is for the next one.
func (f *feed) take() (frames [][]byte, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cut {
		f.cut = false
		return nil, false
	}
	n := len(f.order) + len(f.logs) + len(f.answers)
	if n == 0 {
		return nil, true
	}
	frames = make([][]byte, 0, n)
	for _, uri := range f.order {
		frames = append(frames, f.updates[uri])
	}
	clear(f.updates)
	f.order = f.order[:0]
	frames = append(append(frames, f.logs...), f.answers...)
	f.logs, f.answers, f.logged, f.bytes = nil, nil, 0, 0
	return frames, true
}

// close drops what waits and all that is put in later.
func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.dropLocked()
}
