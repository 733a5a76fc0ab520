package fleet

import (
	"cmp"
	"context"
	"os"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/watch"
)

// A lack is what an attempt to start a server failed for, as far as it can be
// seen to be there again.
type lack struct {
	port  watch.Address
	files *watch.Files // nil of a URL
}

// look remembers what a start is about to find.
func (m *member) look(s config.Server) {
	if s.Command == "" || s.Retry.WatchFor <= 0 {
		m.lack.Store(nil)
		return
	}
	c := watch.Command{Name: s.Command, Args: s.Args, Dir: s.Cwd, Path: cmp.Or(s.Env["PATH"], os.Getenv("PATH"))}
	m.lack.Store(&lack{files: watch.Look(c)})
}

// refused remembers where a start was refused. It takes the error before secrets
// are hidden in it.
func (m *member) refused(s config.Server, err error) {
	if s.URL != "" && err != nil {
		m.lack.Store(&lack{port: watch.Refused(s.URL, err)})
	}
}

// watch is the member's slot.Options.Watch. A port is looked at while retries
// are fast; the files of a command for as long as it takes.
func (f *Fleet) watch(m *member) func(context.Context, config.Server, time.Time) bool {
	return func(ctx context.Context, s config.Server, lost time.Time) bool {
		l := m.lack.Load()
		often := lost.Add(s.Retry.WatchFor)
		switch {
		case l == nil || s.Retry.WatchFor <= 0:
			return false
		case l.files != nil:
			return l.files.Wait(ctx, often)
		case l.port == watch.Address{}:
			return false
		}
		ctx, cancel := context.WithDeadline(ctx, lost.Add(s.Retry.FastFor))
		defer cancel()
		return f.ports.Wait(ctx, l.port, often)
	}
}
