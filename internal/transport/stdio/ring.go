package stdio

import "sync"

// A lineRing keeps the newest lines of a stream.
type lineRing struct {
	mu    sync.Mutex // guards all fields; memory only
	lines []string   // at most cap(lines); a ring once it is full
	next  int        // the oldest line, once it is full
}

func newLineRing(size int) *lineRing { return &lineRing{lines: make([]string, 0, size)} }

func (r *lineRing) add(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lines) < cap(r.lines) {
		r.lines = append(r.lines, line)
		return
	}
	r.lines[r.next] = line
	r.next = (r.next + 1) % len(r.lines)
}

// tail returns a copy of the lines, oldest first.
func (r *lineRing) tail() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(append([]string(nil), r.lines[r.next:]...), r.lines[:r.next]...)
}
