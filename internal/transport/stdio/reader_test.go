package stdio

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/wire"
)

// A byStep reader gives n bytes at a time.
type byStep struct {
	r io.Reader
	n int
}

func (s byStep) Read(p []byte) (int, error) { return s.r.Read(p[:min(len(p), s.n)]) }

// notices reads a stream with the real reader and returns the methods that came.
func notices(t *testing.T, src io.Reader, limit int64) (methods []string, mux *transport.Mux, err error) {
	t.Helper()
	var kept []wire.Message
	mux = transport.NewMux(transport.Options{Inbound: func(in transport.Inbound) { kept = append(kept, in.Msg) }})
	err = newLineReader(src, limit, mux).run()
	for _, m := range kept { // only now: each must have memory of its own
		name, _ := wire.Text(m.Params)
		methods = append(methods, m.Method+name)
	}
	return methods, mux, err
}

func TestReaderAnySplit(t *testing.T) {
	var stream strings.Builder
	want := make([]string, 0, 400)
	stream.WriteString("\xef\xbb\xbf")
	for i := range 400 {
		pad := strings.Repeat("p", i*i%5000)
		fmt.Fprintf(&stream, "{\"method\":\"m\",\"params\":\"%d%s\"}%s", i, pad, []string{"\n", "\r\n", "\n\n \n"}[i%3])
		want = append(want, fmt.Sprintf("m%d%s", i, pad))
	}
	text := strings.TrimRight(stream.String(), "\r\n ") // the last line needs no end
	for _, step := range []int{1, 7, 4096, 65536, len(text)} {
		got, _, err := notices(t, byStep{strings.NewReader(text), step}, 1<<20)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("step %d: %d of %d messages, %v", step, len(got), len(want), err)
		}
	}
	if _, _, err := notices(t, iotest.ErrReader(errors.New("boom")), 1); err == nil || err.Error() != "boom" {
		t.Error("a read error is lost: ", err)
	}
}

func TestReaderSkipsLongLines(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	for name, line := range map[string]string{
		"id first":   `{"jsonrpc":"2.0","id":7,"result":"` + big + `"}`,
		"id last":    `{"result":{"id":9,"text":"` + big + `"},"jsonrpc":"2.0","id":"7"}`,
		"id earlier": `{"result":"` + big + `","id":7,"jsonrpc":"2.0"}`,
	} {
		for _, step := range []int{999, 1 << 20} {
			mux := transport.NewMux(transport.Options{Inbound: func(transport.Inbound) {}})
			w, _ := mux.Register(&transport.Request{ID: 7, Method: "m"})
			src := byStep{strings.NewReader(line + "\n{\"id\":8,\"result\":1}\n"), step}
			if err := newLineReader(src, 100<<10, mux).run(); err != nil {
				t.Fatal(err)
			}
			_, err := mux.Await(t.Context(), 7, w)
			wantFault(t, err, fault.TooLarge, fault.Answered)
			if n := mux.Counts(transport.Info{}); n.Noise != 0 || n.LateAnswers != 1 {
				t.Errorf("%s: %+v: the next line was not read", name, n)
			}
		}
	}
	for _, line := range []string{`{"method":"m","id":7,"params":"` + big + `"}`, `{"x":"` + big + `"}`, big} {
		got, mux, err := notices(t, strings.NewReader(line+"\n{\"method\":\"next\"}\n"), 100<<10)
		if err != nil || !slices.Equal(got, []string{"next"}) || mux.Counts(transport.Info{}).Noise != 1 {
			t.Errorf("%.20s: %q, %v, %d noise lines", line, got, err, mux.Counts(transport.Info{}).Noise)
		}
	}
}

// endless is a stream without an end.
type endless struct {
	line string
	pos  int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.line[e.pos:])
	for n < len(p) {
		n += copy(p[n:], e.line)
	}
	e.pos = (e.pos + len(p)) % len(e.line)
	return n, nil
}

func TestReaderGivesUpOnNoise(t *testing.T) {
	for _, line := range []string{"garbage\n", "garbage without a line end ", "\n", "{broken\n", `{"no":"message"}` + "\n"} {
		_, mux, err := notices(t, &endless{line: line}, 64<<20)
		var f *fault.Fault
		if !errors.As(err, &f) || f.Kind != fault.Protocol {
			t.Errorf("%q: got %v", line, err)
		}
		if mux.Counts(transport.Info{}).Noise > maxNoiseLines+readBuffer {
			t.Errorf("%q: only after %d lines", line, mux.Counts(transport.Info{}).Noise)
		}
	}
	// A message now and then is all that it takes.
	lines := strings.Repeat(strings.Repeat("noise\n", maxNoiseLines-1)+"{\"method\":\"m\"}\n", 3)
	if got, _, err := notices(t, strings.NewReader(lines), 1<<20); err != nil || len(got) != 3 {
		t.Errorf("%q, %v", got, err)
	}
}

func TestReaderAllocatesTheMessageOnly(t *testing.T) {
	line := append(bytes.Repeat([]byte(" "), 10), `{"method":"ping","params":"`+strings.Repeat("x", 1000)+`"}`+"\n"...)
	const lines = 1000
	stream := bytes.Repeat(line, lines)
	mux := transport.NewMux(transport.Options{Inbound: func(transport.Inbound) {}})
	got := testing.AllocsPerRun(5, func() {
		if err := newLineReader(bytes.NewReader(stream), 1<<20, mux).run(); err != nil {
			t.Fatal(err)
		}
	})
	if got > lines+20 {
		t.Errorf("%v allocations for %d messages", got, lines)
	}
}

func TestStderrDrainBounds(t *testing.T) {
	d := newStderrDrain(nil)
	d.start(strings.NewReader(strings.Repeat("y", 100<<10) + "\r\n" + strings.Repeat("line\r\n", 30) + "bad \xff utf\nunfinished"))
	<-d.done
	got := d.tail.tail()
	if len(got) != stderrTail || got[0] != "line" || got[18] != "bad \ufffd utf" || got[19] != "unfinished" {
		t.Errorf("got %q", got)
	}
	d = newStderrDrain(nil)
	d.start(strings.NewReader(strings.Repeat("y", 100<<10) + "\nz\n"))
	<-d.done
	if got := d.tail.tail(); len(got) != 2 || len(got[0]) != stderrLine || got[1] != "z" {
		t.Errorf("got %d lines", len(got))
	}
}

// Lines that a slow sink missed are owned up to.
func TestStderrDrainSaysWhatItDropped(t *testing.T) {
	d := newStderrDrain(func(string) {}) // not started: the slowest sink there is
	d.split([]byte(strings.Repeat("line\n", stderrQueue+5)))
	for range 2 {
		<-d.out
	}
	d.split([]byte("later\n"))
	close(d.out)
	var got []string
	for line := range d.out {
		got = append(got, line)
	}
	if got = got[len(got)-2:]; !strings.HasPrefix(got[0], "(5 lines") || got[1] != "later" {
		t.Errorf("got %q", got)
	}
}
