package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/everline/everline/event"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/show"
)

const (
	progressEvery = 500 * time.Millisecond // how often the line is rewritten
	progressAsks  = time.Second            // how long its text may ask the everline that runs
)

// A progress shows on a terminal, and after a second, what a command waits for.
// Its one goroutine ends with stop; where there is no terminal it has none.
type progress struct {
	prints chan func()
	quit   func() // closes what ends the goroutine
	over   chan struct{}
}

// progress shows what text says until the caller calls stop, which it must.
func (a *app) progress(text func() string) *progress {
	if !isTerminal(a.stderr) {
		return &progress{quit: func() {}}
	}
	return newProgress(a.waitingLine(), text)
}

func newProgress(line func(string), text func() string) *progress {
	quit := make(chan struct{})
	p := &progress{prints: make(chan func()), over: make(chan struct{}), quit: sync.OnceFunc(func() { close(quit) })}
	go func() { // ends with stop
		defer close(p.over)
		defer line("")
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				line(text())
			case print := <-p.prints:
				line("")
				print()
			case <-quit:
				return
			}
		}
	}()
	return p
}

// print runs what prints to the same terminal, with the line out of the way.
// It must not be called after stop.
func (p *progress) print(f func()) {
	if p.prints == nil {
		f()
		return
	}
	done := make(chan struct{})
	p.prints <- func() { defer close(done); f() }
	<-done
}

// stop takes the line away. It is idempotent.
func (p *progress) stop() {
	p.quit()
	if p.over != nil {
		<-p.over
	}
}

// stateText is the state of a server in a few words.
func stateText(s admin.Server) string {
	text := s.Name + " is " + string(s.State)
	switch {
	case s.State == event.StateConnected:
		return text + fmt.Sprintf(", %s out, %d waiting", plural(s.Out, "call"), s.Waiting)
	case s.Cause != nil:
		text += ": " + *s.Cause
	}
	return text
}

// serverText is stateText of a server by its name.
func serverText(ctx context.Context, c *admin.Client, name string) string {
	ctx, cancel := context.WithTimeout(ctx, progressAsks)
	defer cancel()
	if st, err := c.Status(ctx); err == nil {
		for _, s := range st.Servers {
			if s.Name == name {
				return stateText(s)
			}
		}
	}
	return name
}

// waitingLine shows, on a terminal and after a second, what is waited for; ""
// takes the line away.
func (a *app) waitingLine() func(text string) {
	began, shown := time.Now(), false
	terminal := isTerminal(a.stderr)
	return func(text string) {
		switch took := time.Since(began); {
		case text == "" && shown:
			fmt.Fprint(a.live(), "\r\x1b[K")
		case text != "" && terminal && took > time.Second:
			line := fmt.Sprintf("%s: %s", span(took), printable(text))
			if width := terminalWidth(a.stderr); width > 0 {
				line = show.Cut(line, width-1)
			}
			fmt.Fprintf(a.live(), "\r%s\x1b[K", line)
			shown = true
		}
	}
}
