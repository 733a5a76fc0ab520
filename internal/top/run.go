package top

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/gdamore/tcell/v3"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
)

// API is what the view asks; *admin.Client is one.
type API interface {
	Status(ctx context.Context) (admin.Status, error)
	Events(ctx context.Context, follow bool, fn func(admin.Event) error) error
	Logs(ctx context.Context, server string, follow bool, fn func(admin.LogLine) error) error
	Operate(ctx context.Context, server, op string, wait time.Duration) (admin.Server, error)
}

// Options make a view.
type Options struct {
	API     API
	Screen  tcell.Screen // Run initializes it, and gives the terminal back
	Colours bool
}

const (
	statusEvery  = time.Second            // that everline is asked how it does
	statusGap    = 200 * time.Millisecond // between two questions, whatever happens
	statusLimit  = 5 * time.Second        // for an answer
	operateLimit = 30 * time.Second
	streamPause  = time.Second // before a lost event stream is opened again
	tickEvery    = 500 * time.Millisecond
)

// Run shows the view until the user leaves or ctx ends; both are no error.
// That everline does not answer is one only at the start; later the view says
// so and goes on asking.
func Run(ctx context.Context, o Options) error {
	first, err := o.API.Status(ctx)
	if err != nil {
		return err
	}
	if err := o.Screen.Init(); err != nil {
		return &fault.Fault{Kind: fault.Invalid, Op: "open the terminal", Outcome: fault.NotSent, Err: err, Remedy: "everline status"}
	}
	defer o.Screen.Fini()
	ctx, cancel := context.WithCancel(ctx)
	v := &view{Options: o, inbox: make(chan any, 256), kick: make(chan struct{}, 1)}
	v.workers.Go(func() { v.askStatus(ctx) })    // ends with ctx
	v.workers.Go(func() { v.followEvents(ctx) }) // ends with ctx
	v.loop(ctx, first)
	cancel()
	v.workers.Wait()
	return nil
}

// A view has one loop, and beside it a worker for the status, one for the
// events, and one for each operation and reading of a log that is under way.
// All end with Run.
type view struct {
	Options
	inbox   chan any      // messages of the workers
	kick    chan struct{} // one slot: ask for the status now
	workers sync.WaitGroup
	reading bool // a log is being read; owned by the loop
}

func (v *view) loop(ctx context.Context, first admin.Status) {
	width, height := v.Screen.Size()
	m := newModel(first, time.Now(), width, height)
	p := painter{v.Screen, v.Colours}
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		// The size in a resize event is not to be trusted: some terminals
		// report rows and columns in the wrong order.
		if w, h := v.Screen.Size(); w != m.width || h != m.height {
			m.update(time.Now(), sized{w, h})
		}
		p.paint(m.frame(), m.width)
		select {
		case e, open := <-v.Screen.EventQ():
			if !open || v.handle(ctx, m, e) {
				return
			}
		case msg := <-v.inbox:
			v.receive(ctx, m, msg)
			for range len(v.inbox) { // one frame for all of them
				v.receive(ctx, m, <-v.inbox)
			}
		case <-tick.C:
			v.carryOut(ctx, m.update(time.Now(), ticked{}))
		case <-ctx.Done():
			return
		}
	}
}

func (v *view) receive(ctx context.Context, m *model, msg any) {
	switch msg.(type) {
	case logged:
		v.reading = false
	case operated, happened:
		v.askNow()
	}
	v.carryOut(ctx, m.update(time.Now(), msg))
}

// handle passes a terminal's event on; done if the user leaves.
func (v *view) handle(ctx context.Context, m *model, e tcell.Event) (done bool) {
	switch e := e.(type) {
	case *tcell.EventResize:
		v.Screen.Sync()
	case *tcell.EventKey:
		if key := keyName(e); key != "" {
			return v.carryOut(ctx, m.update(time.Now(), pressed{key}))
		}
	}
	return false
}

var keyNames = map[tcell.Key]string{
	tcell.KeyUp: "up", tcell.KeyDown: "down", tcell.KeyLeft: "left", tcell.KeyPgUp: "pgup", tcell.KeyPgDn: "pgdn",
	tcell.KeyHome: "home", tcell.KeyEnd: "end", tcell.KeyEnter: "enter", tcell.KeyEsc: "esc",
	tcell.KeyBackspace: "backspace", tcell.KeyBackspace2: "backspace", tcell.KeyCtrlC: "ctrl-c", tcell.KeyCtrlL: "ctrl-l",
}

// keyName is the model's name of a key; "" for those that mean nothing.
func keyName(e *tcell.EventKey) string {
	if !e.Pressed() {
		return ""
	}
	if name := keyNames[e.Key()]; name != "" {
		return name
	}
	switch {
	case e.Key() != tcell.KeyRune || e.Modifiers()&(tcell.ModAlt|tcell.ModMeta) != 0:
		return ""
	case e.Modifiers()&tcell.ModCtrl != 0:
		return "ctrl-" + strings.ToLower(e.Str())
	default:
		return e.Str()
	}
}

// carryOut does what the model asked for; done if that is to end.
func (v *view) carryOut(ctx context.Context, effects []any) (done bool) {
	for _, e := range effects {
		switch e := e.(type) {
		case quit:
			done = true
		case redraw:
			v.Screen.Sync()
		case operate:
			v.workers.Go(func() { v.operate(ctx, e) }) // ends with ctx or its limit
		case readLog:
			if !v.reading {
				v.reading = true
				v.workers.Go(func() { v.readLog(ctx, e.server) }) // ends with ctx or its limit
			}
		}
	}
	return done
}

func (v *view) askNow() {
	select {
	case v.kick <- struct{}{}:
	default:
	}
}

// post hands a message to the loop.
func (v *view) post(ctx context.Context, msg any) {
	select {
	case v.inbox <- msg:
	case <-ctx.Done():
	}
}

// askStatus asks every second, and when something has happened.
func (v *view) askStatus(ctx context.Context) {
	every := time.NewTicker(statusEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
		case <-v.kick:
		case <-ctx.Done():
			return
		}
		asking, cancel := context.WithTimeout(ctx, statusLimit)
		st, err := v.API.Status(asking)
		cancel()
		if err != nil {
			v.post(ctx, lost{whyLost(err)})
		} else {
			v.post(ctx, answered{st})
		}
		pause(ctx, statusGap)
	}
}

func whyLost(err error) string {
	if f := fault.From("", err); !errors.Is(err, admin.ErrNotRunning) {
		return "everline does not answer: " + f.Reason()
	}
	return fault.From("", err).Reason()
}

// followEvents reads the event stream, and opens it again when it is lost.
func (v *view) followEvents(ctx context.Context) {
	for ctx.Err() == nil {
		fresh := true
		// The status says why it ended, too.
		_ = v.API.Events(ctx, true, func(e admin.Event) error {
			v.post(ctx, happened{e, fresh})
			fresh = false
			return ctx.Err()
		})
		pause(ctx, streamPause)
	}
}

func (v *view) operate(ctx context.Context, o operate) {
	limited, cancel := context.WithTimeout(ctx, operateLimit)
	defer cancel()
	s, err := v.API.Operate(limited, o.server, o.op, 0)
	v.post(ctx, operated{o.server, o.op, s, err})
}

func (v *view) readLog(ctx context.Context, server string) {
	limited, cancel := context.WithTimeout(ctx, statusLimit)
	defer cancel()
	var lines []admin.LogLine
	err := v.API.Logs(limited, server, false, func(l admin.LogLine) error {
		if lines = append(lines, l); len(lines) > 2*keptLogs {
			lines = append(lines[:0], lines[keptLogs:]...)
		}
		return nil
	})
	if err != nil {
		server = "" // says nothing about any server
	}
	v.post(ctx, logged{server, lines})
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
