package tracing

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
)

// A Context is where a span stands: in which trace, and by which id others know
// it (W3C Trace Context, level 2). The zero value is none.
type Context struct {
	Trace [16]byte
	Span  [8]byte
	Flags byte
	State string // tracestate, as it came; it is handed on and not read
}

const (
	flagSampled = 1
	textSize    = len("00-0123456789abcdef0123456789abcdef-0123456789abcdef-01")
)

// Valid tells whether it is one.
func (c *Context) Valid() bool { return c.Trace != [16]byte{} && c.Span != [8]byte{} }

// Sampled tells whether whoever made the span records it.
func (c *Context) Sampled() bool { return c.Flags&flagSampled != 0 }

// Sample notes that the span is recorded.
func (c *Context) Sample() { c.Flags |= flagSampled }

// Parse reads the text of a traceparent; false if it is none. Of a version that is
// not known yet it takes what all versions begin with.
func Parse(text []byte) (c Context, ok bool) {
	if len(text) < textSize || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return Context{}, false
	}
	var version, flags [1]byte
	if !unhex(version[:], text[:2]) || !unhex(c.Trace[:], text[3:35]) || !unhex(c.Span[:], text[36:52]) || !unhex(flags[:], text[53:55]) {
		return Context{}, false
	}
	c.Flags = flags[0]
	long := len(text) > textSize
	if version[0] == 0xff || version[0] == 0 && long || long && text[textSize] != '-' || !c.Valid() {
		return Context{}, false
	}
	return c, true
}

// unhex decodes lower case alone, as the specification has it.
func unhex(dst, text []byte) bool {
	for i := range dst {
		hi, lo := digit(text[2*i]), digit(text[2*i+1])
		if hi|lo > 0xf {
			return false
		}
		dst[i] = hi<<4 | lo
	}
	return true
}

func digit(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	default:
		return 0xff
	}
}

// Append appends the text of a traceparent.
func (c *Context) Append(dst []byte) []byte {
	dst = append(dst, "00-"...)
	dst = hex.AppendEncode(dst, c.Trace[:])
	dst = append(dst, '-')
	dst = hex.AppendEncode(dst, c.Span[:])
	return hex.AppendEncode(append(dst, '-'), []byte{c.Flags})
}

// String is the text of a traceparent.
func (c *Context) String() string { return string(c.Append(make([]byte, 0, textSize))) }

// Text is the same as JSON.
func (c *Context) Text() []byte {
	return append(c.Append(append(make([]byte, 0, textSize+2), '"')), '"')
}

// Child is the context of a new span below this one, or of a new trace below none.
// It is not sampled.
func (c Context) Child() Context {
	out := c
	for out.Trace == [16]byte{} {
		put(out.Trace[:8], rand.Uint64())
		put(out.Trace[8:], rand.Uint64())
	}
	out.Span = newID()
	out.Flags &^= flagSampled
	return out
}

func newID() (id [8]byte) {
	for id == [8]byte{} {
		put(id[:], rand.Uint64())
	}
	return id
}

func put(dst []byte, n uint64) {
	binary.LittleEndian.PutUint64(dst, n)
}
