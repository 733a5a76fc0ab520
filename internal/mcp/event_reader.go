package mcp

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"time"
)

// ErrTooLong is returned once for an event over the limit; what is left of
// that event is skipped by the next call.
var ErrTooLong = errors.New("event is over the limit for one message")

const (
	eventBufSize = 8 << 10
	eventBufKept = 256 << 10 // larger read buffers are not pooled
	eventPrefix  = 4 << 10   // of an event that is too long, so much is shown to the caller
	maxRetry     = 5 * time.Minute
)

// An Event is one dispatched event of a stream. Data is the event's own
// memory: it may be kept.
type Event struct {
	Name string // "" is the same as "message"
	Data []byte
}

// IsMessage reports whether the event carries JSON-RPC: streams may mix in
// events of other names, which mean nothing here.
func (e *Event) IsMessage() bool { return e.Name == "" || e.Name == "message" }

// An EventReader splits a byte stream into server-sent events, as the WHATWG
// HTML standard section 9.2 says: CR, LF or CRLF end a line, a byte order mark
// at the start is dropped, comments are skipped, an event that was not ended
// by a blank line is not an event. It is used by one goroutine.
type EventReader struct {
	src io.Reader
	max int64

	pooled     *[]byte
	buf        []byte // buf[start:end] is read and not yet consumed
	start, end int
	scanned    int  // bytes after start known to hold no line end
	skipLF     bool // the last line ended in CR: a LF that follows belongs to it
	first      bool // the start of the stream: a byte order mark may come
	skipping   bool // the rest of an event that was too long is being skipped
	partial    bool // the line that line returned last is not all of that line
	err        error

	name   string
	data   []byte
	inData bool // a data field was seen in the event being read
	id     string

	LastID string        // of the last event that was ended, for Last-Event-ID
	Retry  time.Duration // the server's reconnection time; 0 if it named none
	Events int           // events that were ended, those without data too
}

// LastMessage is the data of the last message in a whole stream, which is the
// answer to the request that the stream is for; nil if there is none.
func LastMessage(stream []byte) []byte {
	rd := NewEventReader(bytes.NewReader(stream), int64(len(stream)), "")
	defer rd.Release()
	var last []byte
	for {
		ev, err := rd.Next()
		if err != nil {
			return last
		}
		if ev.IsMessage() {
			last = ev.Data
		}
	}
}

var eventBufs = sync.Pool{New: func() any { b := make([]byte, eventBufSize); return &b }}

// NewEventReader reads events of up to max bytes of data from src. lastID is the
// id that the stream is resumed from. Release must be called.
func NewEventReader(src io.Reader, max int64, lastID string) *EventReader {
	buf := eventBufs.Get().(*[]byte)
	return &EventReader{src: src, max: max, pooled: buf, buf: *buf, first: true, id: lastID, LastID: lastID}
}

// Release gives the read buffer back. The events stay valid.
func (s *EventReader) Release() {
	if s.pooled != nil && len(s.buf) <= eventBufKept {
		*s.pooled = s.buf
		eventBufs.Put(s.pooled)
	}
	s.pooled, s.buf, s.start, s.end, s.err = nil, nil, 0, 0, io.ErrClosedPipe
}

// Next returns the next event that has data. io.EOF is a clean end;
// ErrTooLong leaves the stream usable, with the event's first bytes in the
// event's data.
func (s *EventReader) Next() (Event, error) {
	for {
		line, err := s.line()
		switch {
		case err != nil:
			return Event{}, err
		case len(line) == 0:
			if ev, ok := s.dispatch(); ok {
				return ev, nil
			}
		case s.skipping:
			s.dropPartial()
		case int64(len(line)) > s.maxLine() || !s.field(line):
			return s.tooLong(line), ErrTooLong
		}
	}
}

// maxLine is the longest line that can hold a message: the field's name and
// the colon are not data.
func (s *EventReader) maxLine() int64 { return s.max + int64(len("data: ")) }

// tooLong starts to skip the event being read and returns what is known of it.
func (s *EventReader) tooLong(line []byte) Event {
	known := s.data
	if len(known) == 0 {
		name, value, _ := bytes.Cut(line, []byte(":"))
		if string(name) == "data" {
			known = bytes.TrimPrefix(value, []byte(" "))
		}
	}
	known = known[:min(int64(len(known)), s.max, eventPrefix)]
	ev := Event{Name: s.name, Data: bytes.Clone(known)}
	s.skipping, s.data, s.inData = true, nil, false
	s.dropPartial()
	return ev
}

// dropPartial forgets what was read of a line whose end was not. One byte of
// it stays, since an empty line would end the event.
func (s *EventReader) dropPartial() {
	if s.partial {
		s.buf[s.start] = ':'
		s.end = s.start + 1
		s.scanned, s.partial = 1, false
	}
}

// dispatch ends an event at its blank line. Without data it is no event, but
// its id counts: servers prime a stream so.
func (s *EventReader) dispatch() (Event, bool) {
	ev := Event{Name: s.name, Data: s.data}
	ok := s.inData && len(s.data) > 0
	if s.inData || s.id != s.LastID {
		s.Events++
	}
	s.LastID = s.id
	s.name, s.data, s.inData, s.skipping = "", nil, false, false
	return ev, ok
}

// field takes in one line of an event; false means that the event is too long.
func (s *EventReader) field(line []byte) bool {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		return s.addData(value)
	case "event":
		s.name = eventName(value)
	case "id":
		if bytes.IndexByte(value, 0) < 0 && string(value) != s.id {
			s.id = string(value)
		}
	case "retry":
		s.setRetry(value)
	}
	return true
}

// addData appends one data line. The usual event has one: it is copied once,
// into memory of just its size.
func (s *EventReader) addData(value []byte) bool {
	total := int64(len(s.data)) + int64(len(value))
	if s.inData {
		total++ // the line end between them
	}
	if total > s.max {
		return false
	}
	if s.inData {
		s.data = append(append(s.data, '\n'), value...)
	} else {
		s.data = bytes.Clone(value)
	}
	s.inData = true
	return true
}

// setRetry takes the server's reconnection time, digits in milliseconds.
func (s *EventReader) setRetry(value []byte) {
	if len(value) == 0 {
		return
	}
	var ms int64
	for _, c := range value {
		if c < '0' || c > '9' {
			return
		}
		ms = min(ms*10+int64(c-'0'), maxRetry.Milliseconds())
	}
	s.Retry = max(time.Duration(ms)*time.Millisecond, time.Millisecond)
}

// eventName avoids an allocation for the names that MCP servers use.
func eventName(value []byte) string {
	if string(value) == "message" {
		return "message"
	}
	return string(value)
}

// line returns the next line without its end, a view that is valid until the
// next call. A line over the limit is returned as soon as that is known, with
// partial set where its end has not come.
func (s *EventReader) line() ([]byte, error) {
	for {
		s.dropLF()
		if !s.atBOM() {
			if line, ok := s.cut(); ok {
				return line, nil
			}
		}
		if s.err != nil {
			return nil, s.err
		}
		if int64(s.end-s.start) > s.maxLine() {
			s.partial = true
			return s.buf[s.start:s.end], nil
		}
		s.fill()
	}
}

// atBOM drops the byte order mark at the start of the stream. It is true while
// what was read may be the beginning of one.
func (s *EventReader) atBOM() bool {
	const bom = "\xef\xbb\xbf"
	if !s.first {
		return false
	}
	read := string(s.buf[s.start:min(s.end, s.start+len(bom))])
	if len(read) < len(bom) && strings.HasPrefix(bom, read) {
		return true
	}
	s.first = false
	if read == bom {
		s.start += len(bom)
	}
	return false
}

// dropLF drops the second half of a CRLF, which may come in a later read.
func (s *EventReader) dropLF() {
	if !s.skipLF || s.start == s.end {
		return
	}
	s.skipLF = false
	if s.buf[s.start] == '\n' {
		s.start++
	}
}

// cut takes one line out of the buffer, if all of it is there.
func (s *EventReader) cut() ([]byte, bool) {
	fresh := s.buf[s.start+s.scanned : s.end]
	lineEnd := bytes.IndexByte(fresh, '\n')
	if lineEnd >= 0 {
		fresh = fresh[:lineEnd]
	}
	if cr := bytes.IndexByte(fresh, '\r'); cr >= 0 {
		lineEnd, s.skipLF = cr, true
	}
	if lineEnd < 0 {
		s.scanned = s.end - s.start
		return nil, false
	}
	from := s.start
	s.start += s.scanned + lineEnd + 1
	s.scanned = 0
	return s.buf[from : s.start-1], true
}

// fill makes room and reads once.
func (s *EventReader) fill() {
	if s.start == s.end {
		s.start, s.end, s.scanned = 0, 0, 0
	}
	if s.end == len(s.buf) {
		if s.start >= len(s.buf)/2 {
			s.end = copy(s.buf, s.buf[s.start:s.end])
		} else {
			grown := make([]byte, 2*len(s.buf))
			s.end = copy(grown, s.buf[s.start:s.end])
			s.buf = grown
		}
		s.start = 0
	}
	n, err := s.src.Read(s.buf[s.end:])
	s.end += n
	s.err = err
}
