package pipe

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/everline/everline/internal/gateway/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestReadLine(t *testing.T) {
	r := bufio.NewReaderSize(strings.NewReader("one\r\n\n"+strings.Repeat("x", 100)+"\n two \t\nlast"), 16)
	for _, want := range []string{"one", "", "!", " two", "last"} {
		line, err := ReadLine(r, 20)
		got := string(line)
		if errors.Is(err, ErrLongLine) {
			got = "!"
		}
		if got != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
	if line, err := ReadLine(r, 20); len(line) > 0 || !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %q, %v", line, err)
	}
}

// held is an output whose Write does not come back, and that cannot be closed.
type held struct{ until chan struct{} }

func (h held) Write(p []byte) (int, error) {
	<-h.until
	return len(p), nil
}

// Lines are taken until the input ends, what is in flight has its grace, and an
// output that does not let go is given up.
func TestServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, stuck := range []bool{false, true} {
			var taken, written strings.Builder
			var out io.Writer = &written
			until := make(chan struct{})
			if stuck {
				out = held{until}
			}
			calls := make(chan context.Context, 1)
			var cause error
			outbox := stream.NewOutbox()
			began := time.Now()
			err := Serve(t.Context(), strings.NewReader("a\n\nb"), out, Options{
				Limit: 10, WriteTimeout: 10 * time.Second, Stream: stream.Options{Outbox: outbox},
				Start: func(ctx context.Context) { calls <- ctx },
				Take: func(_ context.Context, line []byte) {
					taken.Write(append(line, ' '))
					outbox.Send(line)
				},
				Ended: func(context.Context) {},
				Drain: func() {
					ctx := <-calls
					<-ctx.Done()
					cause = context.Cause(ctx)
				},
			})
			if taken.String() != "a b " {
				t.Errorf("taken: %q", taken.String())
			}
			if !errors.Is(cause, ErrLeft) {
				t.Errorf("the calls ended with %v", cause)
			}
			took := time.Since(began)
			switch {
			case !stuck && (err != nil || took != Grace || written.String() != "a\nb\n"):
				t.Errorf("%v after %v: %q", err, took, written.String())
			case stuck && (!errors.Is(err, stream.ErrSlow) || took != 10*time.Second+stopGrace):
				t.Errorf("%v after %v", err, took)
			}
			close(until)
			synctest.Wait()
		}
	})
}
