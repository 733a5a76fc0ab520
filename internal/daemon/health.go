package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/everline/everline/event"
	"github.com/everline/everline/internal/door"
)

// answerTime is how long a loop may take to read a note.
const answerTime = 5 * time.Second

// stuck names what of the program does not answer.
func (d *daemon) stuck(ctx context.Context) (parts []string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	defer cancel()
	for _, name := range door.Stuck(ctx, d.hub) {
		parts = append(parts, "the supervisor of "+name+" does not answer")
	}
	if !d.gateway.Answers(lockTime) {
		parts = append(parts, "the sessions of clients are locked")
	}
	return parts
}

const lockTime = time.Second

// statusLine is what the service manager shows of the servers.
func (d *daemon) statusLine() string {
	var connected, all int
	var away []string
	for _, st := range d.hub.Status() {
		if st.State.Off() {
			continue
		}
		all++
		switch {
		case st.State == event.StateConnected:
			connected++
		case !st.AwaySince.IsZero():
			away = append(away, st.Name+" away since "+st.AwaySince.Format("15:04"))
		}
	}
	const most = 5
	if len(away) > most {
		away = append(away[:most], fmt.Sprintf("%d more", len(away)-most))
	}
	return "STATUS=" + strings.Join(append([]string{fmt.Sprintf("%d of %d connected", connected, all)}, away...), "; ")
}

// statusGap is the least time between two words about the servers.
const statusGap = time.Second

// tellSystemd keeps the service manager informed: of the servers, and, where it
// watches, that everline is well.
func (d *daemon) tellSystemd() {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return
	}
	var seen uint64
	told := ""
	var beat <-chan time.Time
	if every := watchdog(); every > 0 {
		t := time.NewTicker(every)
		defer t.Stop()
		beat = t.C
		d.beat()
	}
	for {
		events, more := d.journal.After(seen)
		if len(events) > 0 {
			seen = events[len(events)-1].Seq
		}
		if line := d.statusLine(); line != told && !d.api.Stopping() {
			notifySystemd(line)
			told = line
		}
		pause := time.After(statusGap)
		for waiting := true; waiting; {
			select {
			case <-beat:
				d.beat()
			case <-pause:
				pause = nil
			case <-d.base.Done():
				return
			case <-readable(more, pause == nil):
				waiting = false
			}
		}
	}
}

// readable is a channel once it may be looked at.
func readable(c <-chan struct{}, may bool) <-chan struct{} {
	if may {
		return c
	}
	return nil
}

// watchdog is how often the service manager wants to hear of this process: at
// half the time that it waits. 0: never.
func watchdog() time.Duration {
	usec, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	pid := os.Getenv("WATCHDOG_PID")
	if err != nil || usec <= 0 || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	return time.Duration(usec) * time.Microsecond / 2
}

// beat tells the service manager that all is well; where it is not, it leaves
// behind what every goroutine was at, before the manager ends this process.
func (d *daemon) beat() {
	parts := d.api.Well(d.base)
	if len(parts) == 0 {
		notifySystemd("WATCHDOG=1")
		return
	}
	d.parts.Log.Error("everline is not well; its service manager may start it anew", "parts", strings.Join(parts, "; "))
	if err := dumpGoroutines(d.parts.stateDir); err != nil {
		d.parts.Log.Error("what hangs could not be written down", "cause", err)
	}
}

// hangsKept is how many files of goroutines are kept.
const hangsKept = 3

func dumpGoroutines(dir string) error {
	if dir == "" {
		return nil
	}
	old, err := filepath.Glob(filepath.Join(dir, "hang-*.txt"))
	if err != nil {
		return err
	}
	slices.Sort(old)
	for len(old) >= hangsKept {
		if err := os.Remove(old[0]); err != nil {
			return err
		}
		old = old[1:]
	}
	f, err := os.OpenFile(filepath.Join(dir, "hang-"+time.Now().UTC().Format("20060102T150405.000")+".txt"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	return pprof.Lookup("goroutine").WriteTo(f, 2)
}

// extendTimeout asks for the time that a stop may take.
func extendTimeout(d time.Duration) string {
	return "EXTEND_TIMEOUT_USEC=" + strconv.FormatInt(d.Microseconds(), 10)
}
