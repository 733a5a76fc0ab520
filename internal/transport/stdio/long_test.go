package stdio

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/wire"
)

// longSizes are sizes of messages around those at which the reader changes how
// it keeps them.
var longSizes = []int{
	100, maxReadBuffer - 60, maxReadBuffer + 1, 700_000, segmentSize - 20, maxReadBuffer + segmentSize, 5,
}

// filler is a text of some size that shows where it was mixed up.
func filler(seed, size int) string {
	b := make([]byte, 0, size+20)
	for len(b) < size {
		b = append(strconv.AppendInt(append(strconv.AppendInt(b, int64(seed), 10), '.'), int64(len(b)), 10), ' ')
	}
	return string(b[:size])
}

// Answers come to their calls whole, whatever was read with them, and
// notifications in order.
func TestReaderLongLines(t *testing.T) {
	var stream bytes.Buffer
	stream.WriteString("\xef\xbb\xbf")
	var order []string
	for i, size := range longSizes {
		fmt.Fprintf(&stream, "{\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":\"%s\"}\r\n", i+1, filler(i, size))
		fmt.Fprintf(&stream, "{\"method\":\"m\",\"params\":\"%s\"}\n\n{\"method\":\"next\"}\n", filler(i, size))
		order = append(order, "m"+filler(i, size), "next")
	}
	stream.WriteString(`{"method":"last","params":"` + filler(99, 400_000) + `"}`) // needs no line end
	order = append(order, "last"+filler(99, 400_000))
	for _, step := range []int{5000, 3 * segmentSize} {
		var kept []wire.Message
		mux := transport.NewMux(transport.Options{Inbound: func(in transport.Inbound) { kept = append(kept, in.Msg) }})
		waiters := make([]*transport.Waiter, len(longSizes))
		for i := range waiters {
			waiters[i], _ = mux.Register(&transport.Request{ID: int64(i + 1), Method: "m"})
		}
		if err := newLineReader(byStep{bytes.NewReader(stream.Bytes()), step}, 64<<20, mux).run(); err != nil {
			t.Fatal(err)
		}
		for i, w := range waiters { // only now: each must have memory of its own
			msg, err := mux.Await(t.Context(), int64(i+1), w)
			if text, _ := wire.Text(msg.Result); err != nil || text != filler(i, longSizes[i]) {
				t.Errorf("step %d: the answer of %d bytes has %d, %v", step, longSizes[i], len(text), err)
			}
		}
		if got := texts(kept); !slices.Equal(got, order) || mux.Counts(transport.Info{}).Noise != 0 {
			t.Errorf("step %d: %d notifications of %d, or another order; %d noise lines", step, len(got), len(order), mux.Counts(transport.Info{}).Noise)
		}
	}
}

func texts(notices []wire.Message) (all []string) {
	for _, m := range notices {
		text, _ := wire.Text(m.Params)
		all = append(all, m.Method+text)
	}
	return all
}

// A line that was kept in pieces and becomes too long fails its call, and one
// that turns out to be no message is noise.
func TestReaderLongLinesThatAreNoAnswer(t *testing.T) {
	const limit = 3 << 20
	for name, c := range map[string]struct {
		line  string
		noise uint64
		kind  fault.Kind
	}{
		"too long, id first": {`{"id":7,"result":"` + filler(1, limit) + `"}`, 0, fault.TooLarge},
		"too long, id last":  {`{"result":"` + filler(1, limit) + `","id":7}`, 0, fault.TooLarge},
		"too long, no id":    {`{"method":"` + filler(1, limit) + `"}`, 1, fault.Exited},
		"no JSON":            {`{"id":7,"result":"` + filler(1, 1<<20) + `}`, 1, fault.Protocol},
		"no message":         {`{"id":7,"x":"` + filler(1, 1<<20) + `"}`, 1, fault.Exited},
		"a notification too": {`{"result":1,"method":"m","x":"` + filler(1, 1<<20) + `"}`, 1, fault.Exited},
	} {
		for _, step := range []int{9999, 8 << 20} {
			mux := transport.NewMux(transport.Options{Inbound: func(in transport.Inbound) { t.Errorf("%s: %.20s came in", name, in.Msg.Method) }})
			w, _ := mux.Register(&transport.Request{ID: 7, Method: "m"})
			if err := newLineReader(byStep{strings.NewReader(c.line + "\n\n"), step}, limit, mux).run(); err != nil {
				t.Fatal(err)
			}
			mux.End(fault.New(fault.Exited, "", "the end"))
			_, err := mux.Await(t.Context(), 7, w)
			wantKind(t, name, err, c.kind)
			if mux.Counts(transport.Info{}).Noise != c.noise {
				t.Errorf("%s: %d noise lines", name, mux.Counts(transport.Info{}).Noise)
			}
		}
	}
}

func wantKind(t *testing.T, name string, err error, kind fault.Kind) {
	t.Helper()
	if f, ok := err.(*fault.Fault); !ok || f.Kind != kind { //nolint:errorlint // never wrapped here
		t.Errorf("%s: got %v", name, err)
	}
}

// While a large answer is being put together its call seems to wait. An answer
// that fits no call must not be taken for its own; but once it is there, the
// call that is left is the one that the misfit was for.
func TestReaderLargeAnswerKeepsItsCall(t *testing.T) {
	mux := transport.NewMux(transport.Options{Inbound: func(transport.Inbound) {}})
	first, _ := mux.Register(&transport.Request{ID: 1, Method: "m"})
	mux.LargeComes()
	mux.Deliver([]byte(`{"id":99,"result":{}}`))
	mux.DeliverLarge([]byte(`{"id":1,"result":"large"}`))
	if msg, err := mux.Await(t.Context(), 1, first); err != nil || string(msg.Result) != `"large"` {
		t.Errorf("got %s, %v", msg.Result, err)
	}

	first, _ = mux.Register(&transport.Request{ID: 2, Method: "m"})
	second, _ := mux.Register(&transport.Request{ID: 3, Method: "m"})
	mux.LargeComes()
	mux.Deliver([]byte(`{"id":99,"result":{}}`))
	mux.DeliverLarge([]byte(`{"id":2,"result":"large"}`))
	mux.End(fault.New(fault.Exited, "", "the end"))
	if _, err := mux.Await(t.Context(), 2, first); err != nil {
		t.Error(err)
	}
	_, err := mux.Await(t.Context(), 3, second)
	wantKind(t, "the call that is left", err, fault.Protocol)
}

// Noise is forgiven after a large answer, even while that is put together.
func TestReaderCountsLargeAnswers(t *testing.T) {
	noise := strings.Repeat("noise\n", maxNoiseLines-1)
	large := `{"id":1,"result":"` + filler(1, 1<<20) + "\"}\n"
	mux := transport.NewMux(transport.Options{Inbound: func(transport.Inbound) {}})
	if err := newLineReader(byStep{strings.NewReader(noise + large + noise + large), 4096}, 64<<20, mux).run(); err != nil {
		t.Error(err)
	}
}
