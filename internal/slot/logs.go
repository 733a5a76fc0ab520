package slot

import (
	"errors"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
)

const (
	logLines  = 200      // lines kept over all generations of a server
	logWidth  = 4 << 10  // bytes kept of one line
	lastLines = 5        // lines that explain the end of a generation
	cutMark   = " [cut]" // stands where the rest of a long line was
)

// A Line is one line that a server wrote to stderr.
type Line struct {
	Time time.Time
	Gen  uint64 // the generation that wrote it
	Text string // without the line end; long lines are cut
	N    uint64 // counts the server's lines, from 1
}

// A ring keeps the last lines.
type ring struct {
	mu   sync.Mutex // guards the rest; held for copying alone
	kept []Line     // grows to logLines, then is overwritten from next on
	next int
	n    uint64 // number of the newest
}

func (r *ring) add(gen uint64, text string) {
	line := Line{Time: time.Now(), Gen: gen, Text: cut(text)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	line.N = r.n
	if len(r.kept) < logLines {
		r.kept = append(r.kept, line)
		return
	}
	r.kept[r.next] = line
	r.next = (r.next + 1) % logLines
}

// lines returns a copy, the oldest first.
func (r *ring) lines() []Line {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Line, 0, len(r.kept))
	return append(append(out, r.kept[r.next:]...), r.kept[:r.next]...)
}

// last returns the text of the last lines of one generation.
func (r *ring) last(gen uint64) []string {
	var out []string
	for _, l := range r.lines() {
		if l.Gen == gen {
			out = append(out, l.Text)
		}
	}
	return out[max(0, len(out)-lastLines):]
}

// A redactor hides the secrets of a server's configuration in everything that a
// server says and everline shows in its own words: results and JSON-RPC errors
// are handed on as they are.
type redactor struct{ hide func(text string) string }

func redactorOf(s config.Server) redactor { return redactor{s.Hider()} }

// and returns a redactor that hides, besides, what another one does; nil: nothing.
func (v redactor) and(hide func(string) string) redactor {
	if hide == nil {
		return v
	}
	return redactor{func(text string) string { return hide(v.hide(text)) }}
}

// fault returns a copy without secrets in its texts; RPC.Raw stays as it came.
func (v redactor) fault(f *fault.Fault) *fault.Fault {
	c := *f
	c.Remedy, c.Stderr = v.hide(f.Remedy), nil
	for _, line := range f.Stderr {
		c.Stderr = append(c.Stderr, v.hide(line))
	}
	if f.RPC != nil {
		rpc := *f.RPC
		rpc.Message = v.hide(rpc.Message)
		c.RPC = &rpc
	}
	if f.Err != nil {
		if text := f.Err.Error(); v.hide(text) != text {
			c.Err = errors.New(v.hide(text)) // nothing to unwrap: the cause has the secret
		}
	}
	return &c
}

// cut bounds a line without splitting a character.
func cut(s string) string {
	if len(s) <= logWidth {
		return s
	}
	end := logWidth
	for end > logWidth-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + cutMark
}
