package fleet

import (
	"cmp"
	"os"

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
