package mcp

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// eventTranscript is everything that a reader makes of a stream, as text.
func eventTranscript(src io.Reader, limit int64) []string {
	rd := NewEventReader(src, limit, "")
	defer rd.Release()
	var out []string
	for {
		ev, err := rd.Next()
		if err != nil && !errors.Is(err, ErrTooLong) {
			return append(out, "end "+err.Error()+" id="+rd.LastID+" retry="+rd.Retry.String())
		}
		line := ev.Name + "|" + string(ev.Data) + "|" + rd.LastID
		if err != nil {
			line = "too long " + ev.Name + "|" + string(ev.Data)
		}
		out = append(out, line)
	}
}

func TestEventReader(t *testing.T) {
	for _, tt := range []struct {
		name, input string
		want        []string
	}{
		{"one", "data: a\n\n", []string{"|a|"}},
		{"no space", "data:a\n\n", []string{"|a|"}},
		{"only one space goes", "data:  a\n\n", []string{"| a|"}},
		{"crlf", "event: message\r\ndata: a\r\n\r\ndata: b\r\n\r\n", []string{"message|a|", "|b|"}},
		{"cr", "data: a\r\rdata: b\r\r", []string{"|a|", "|b|"}},
		{"mixed ends", "data: a\r\ndata: b\rdata: c\n\n", []string{"|a\nb\nc|"}},
		{"bom", "\xef\xbb\xbfdata: a\n\n", []string{"|a|"}},
		{"bom only at the start", "data: a\n\n\xef\xbb\xbfdata: b\n\n", []string{"|a|"}},
		{"comments", ": hi\ndata: a\n:\n\n:\n\n", []string{"|a|"}},
		{"id and priming", "id: 7\ndata:\n\ndata: a\n\n", []string{"|a|7"}},
		{"id with NUL is none", "id: 7\nid: a\x00b\ndata: a\n\n", []string{"|a|7"}},
		{"id is reset", "id: 7\ndata: a\n\nid\ndata: b\n\n", []string{"|a|7", "|b|"}},
		{"event name is per event", "event: x\n\ndata: a\n\n", []string{"|a|"}},
		{"empty data lines", "data\ndata\n\n", []string{"|\n|"}},
		{"unknown fields", "foo: 1\nbar\ndata: a\n\n", []string{"|a|"}},
		{"unfinished", "data: a\n\ndata: b\n", []string{"|a|"}},
		{"too long", "data: 0123456789abcdefg\nid: 3\n\ndata: ok\n\n", []string{"too long |0123456789abcdef", "|ok|"}},
		{"too long by lines", "event: m\ndata: 01234567\ndata: 01234567\n\ndata: ok\n\n", []string{"too long m|01234567", "|ok|"}},
		{"just fits", "data: 0123456789abcdef\n\n", []string{"|0123456789abcdef|"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for name, src := range map[string]io.Reader{
				"whole": strings.NewReader(tt.input), "bytewise": iotest.OneByteReader(strings.NewReader(tt.input)),
			} {
				got := eventTranscript(src, 16)
				if !slices.Equal(got[:len(got)-1], tt.want) {
					t.Errorf("%s: got %q, want %q", name, got, tt.want)
				}
				if !strings.HasPrefix(got[len(got)-1], "end EOF") {
					t.Errorf("%s: ends with %q", name, got[len(got)-1])
				}
			}
		})
	}
}

func TestEventReaderRetry(t *testing.T) {
	for input, want := range map[string]time.Duration{
		"retry: 300\n\n": 300 * time.Millisecond, "retry: 3x\n\n": 0, "retry:\n\n": 0,
		"retry: 0\n\n": time.Millisecond, "retry: 99999999999999999999\n\n": maxRetry,
	} {
		rd := NewEventReader(strings.NewReader(input), 100, "")
		_, _ = rd.Next()
		if rd.Retry != want {
			t.Errorf("%q: retry %v, want %v", input, rd.Retry, want)
		}
		rd.Release()
	}
}

// An event is dispatched at its blank line, without waiting for what may
// follow a CR.
func TestEventReaderDispatchesAtOnce(t *testing.T) {
	for _, end := range []string{"\n\n", "\r\r", "\r\n\r\n"} {
		r, w := io.Pipe()
		go func() { _, _ = io.WriteString(w, "data: a"+end) }() // ends with the read below
		rd := NewEventReader(r, 100, "")
		if ev, err := rd.Next(); err != nil || string(ev.Data) != "a" {
			t.Errorf("%q: %q, %v", end, ev.Data, err)
		}
		_ = r.Close()
		rd.Release()
	}
}

func TestEventReaderOneAllocationForData(t *testing.T) {
	input := []byte("event: message\ndata: " + strings.Repeat("x", 4000) + "\n\n")
	src := bytes.NewReader(nil)
	var total int
	allocs := testing.AllocsPerRun(200, func() {
		src.Reset(input)
		rd := NewEventReader(src, 1<<20, "")
		ev, _ := rd.Next()
		total += len(ev.Data)
		rd.Release()
	})
	if allocs > 2 { // the reader and the data
		t.Errorf("%v allocations for an event", allocs)
	}
}

// chunks is a reader that splits its bytes as a fuzzer wants.
type chunks struct {
	rest  []byte
	sizes []byte
	next  int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	n := 1
	if len(c.sizes) > 0 {
		n += int(c.sizes[c.next%len(c.sizes)])
		c.next++
	}
	n = copy(p, c.rest[:min(n, len(c.rest))])
	c.rest = c.rest[n:]
	return n, nil
}

// FuzzEvents: any split of the same bytes gives the same events.
func FuzzEvents(f *testing.F) {
	f.Add([]byte("event: message\r\nid: 1\r\ndata: a\r\n\r\n"), []byte{3, 0, 9})
	f.Add([]byte("\xef\xbb\xbf: c\rretry: 10\r\rdata:b\ndata:c\n\n"), []byte{0})
	f.Add([]byte("data: 0123456789012345678901234567890123456789\nid: 3\n\ndata: x\n\n"), []byte{1, 7})
	f.Fuzz(func(t *testing.T, input, sizes []byte) {
		whole := eventTranscript(bytes.NewReader(input), 20)
		split := eventTranscript(&chunks{rest: input, sizes: sizes}, 20)
		if !slices.Equal(whole, split) {
			t.Fatalf("whole %q\nsplit %q", whole, split)
		}
	})
}
