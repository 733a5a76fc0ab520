package top

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/vt"
	"go.uber.org/goleak"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
)

// fakeAPI is an everline whose answers a test can change.
type fakeAPI struct {
	mu    sync.Mutex
	st    admin.Status
	err   error
	asked []string
	more  chan admin.Event // read by the stream; closed: the stream is lost
}

func (f *fakeAPI) Status(context.Context) (admin.Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.st, f.err
}

func (f *fakeAPI) Events(ctx context.Context, _ bool, fn func(admin.Event) error) error {
	for {
		select {
		case e, open := <-f.more:
			if !open {
				return fault.New(fault.Broken, "read", "the stream ended")
			}
			if err := fn(e); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *fakeAPI) Logs(_ context.Context, _ string, _ bool, fn func(admin.LogLine) error) error {
	return fn(admin.LogLine{Text: "a line of the log"})
}

func (f *fakeAPI) Operate(_ context.Context, server, op string, _ time.Duration) (admin.Server, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, op+" "+server)
	return admin.Server{Name: server, State: "reconnecting"}, nil
}

func (f *fakeAPI) set(st admin.Status, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.st, f.err = st, err
}

// open runs the view on a terminal of 100x30 that is none, and gives that
// terminal and a way to wait for what it shows.
func open(t *testing.T, api *fakeAPI, colours bool) (vt.MockTerm, func(want string)) {
	t.Helper()
	term := vt.NewMockTerm(vt.MockOptSize{X: 100, Y: 30})
	screen, err := tcell.NewTerminfoScreenFromTty(term)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, Options{API: api, Screen: screen, Colours: colours}) }() // ends with the cleanup
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		goleak.VerifyNone(t)
	})
	return term, func(want string) {
		t.Helper()
		end := time.Now().Add(40 * time.Second)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			shown := textOf(term)
			if strings.Contains(shown, want) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("the screen does not show %q:\n%s", want, shown)
			}
			<-tick.C
		}
	}
}

func textOf(term vt.MockTerm) string {
	size, err := term.WindowSize()
	if err != nil {
		return ""
	}
	var b strings.Builder
	for y := range size.Height {
		for x := range size.Width {
			if c := term.GetCell(vt.Coord{X: vt.Col(x), Y: vt.Row(y)}); c.C == "" {
				b.WriteByte(' ')
			} else {
				b.WriteString(c.C)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestOnATerminal drives the view through a terminal: an event and a status
// that change what is shown, an operation, a lost and found everline, the log.
func TestOnATerminal(t *testing.T) {
	api := &fakeAPI{st: sample(), more: make(chan admin.Event, 8)}
	term, shows := open(t, api, true)
	shows("5 servers: 1 connected")
	api.more <- admin.Event{Seq: 1, Time: start, Server: "github", Kind: "lost", Text: "lost: it was killed"}
	shows("lost: it was killed")

	term.KeyTap(vt.KeyJ)
	shows("linear: auth_required: 401")
	term.KeyTap(vt.KeyR)
	shows("restart linear?")
	term.KeyTap(vt.KeyY)
	shows("restart linear: done, it is reconnecting")
	if len(api.asked) != 1 || api.asked[0] != "restart linear" {
		t.Errorf("asked for %q", api.asked)
	}

	api.set(admin.Status{}, &fault.Fault{Kind: fault.Unavailable, Err: admin.ErrNotRunning})
	close(api.more)
	shows("not running")
	changed := sample()
	changed.Servers[0].State = "failed"
	api.set(changed, nil)
	shows("1 failed")

	term.KeyTap(vt.KeyEnter)
	shows("a line of the log")
	term.KeyTap(vt.KeyQ)
}

// colouredCells counts what has another colour than an empty cell.
func colouredCells(term vt.MockTerm) (n int) {
	usual := term.GetCell(vt.Coord{X: 99, Y: 28}).S.Fg()
	for y := range 30 {
		for x := range 100 {
			if term.GetCell(vt.Coord{X: vt.Col(x), Y: vt.Row(y)}).S.Fg() != usual {
				n++
			}
		}
	}
	return n
}

// TestNoColour looks for colours in what the terminal got.
func TestNoColour(t *testing.T) {
	for _, colours := range []bool{true, false} {
		api := &fakeAPI{st: sample(), more: make(chan admin.Event)}
		term, shows := open(t, api, colours)
		shows("postgres")
		coloured := colouredCells(term)
		for end := time.Now().Add(40 * time.Second); colours && coloured == 0 && time.Now().Before(end); {
			coloured = colouredCells(term) // what is shown is still being written
		}
		if colours != (coloured > 0) {
			t.Errorf("colours %v: %d cells have one", colours, coloured)
		}
	}
}

// TestNotRunningAtTheStart is an error, unlike later.
func TestNotRunningAtTheStart(t *testing.T) {
	api := &fakeAPI{err: &fault.Fault{Kind: fault.Unavailable, Err: admin.ErrNotRunning}}
	if err := Run(t.Context(), Options{API: api}); !errors.Is(err, admin.ErrNotRunning) {
		t.Errorf("%v", err)
	}
}
