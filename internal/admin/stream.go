package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
)

// logPoll is how often the ring of a followed server is looked at: the ring
// tells nobody of new lines, so that a chatty server costs nothing.
const logPoll = 100 * time.Millisecond

// lineWriter writes one JSON value per line and sends each batch on at once.
type lineWriter struct {
	enc *json.Encoder
	ctl *http.ResponseController
}

func newLineWriter(w http.ResponseWriter) *lineWriter {
	w.Header().Set("Content-Type", "application/x-ndjson")
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return &lineWriter{enc, http.NewResponseController(w)}
}

// endHeader is the trailer of a followed stream that says why nothing more
// comes: one of the words below.
const (
	endHeader  = "Everline-End"
	endStopped = "stopped"
	endRemoved = "removed"
)

func end(w http.ResponseWriter, why string) { w.Header().Set(http.TrailerPrefix+endHeader, why) }

// ended is the error of a stream that has ended in order, if with a word why.
func ended(why string) *fault.Fault {
	f := &fault.Fault{Kind: fault.Closed, Op: "follow", Err: ErrStopped}
	if why == endRemoved {
		f.Kind, f.Err = fault.NotFound, ErrRemoved
	}
	return f
}

func follows(r *http.Request) bool {
	v := r.URL.Query().Get("follow")
	return v == "" && r.URL.Query().Has("follow") || v == "1" || v == "true"
}

// events writes the kept events, and with ?follow those to come: all of them, or
// those behind ?after=SEQ or the Last-Event-ID RUN-SEQ of this run.
func (a *API) events(w http.ResponseWriter, r *http.Request) {
	seen, f := a.Cursor(r)
	if f != nil {
		a.fail(w, f)
		return
	}
	out := newLineWriter(w)
	for {
		events, more := a.Since(seen)
		for _, e := range events {
			if out.enc.Encode(e) != nil {
				return
			}
			seen = e.Seq
		}
		if out.ctl.Flush() != nil || !follows(r) {
			return
		}
		select {
		case <-more:
		case <-r.Context().Done():
			return
		case <-a.stop:
			end(w, endStopped)
			return
		}
	}
}

// Since returns the kept events behind one, oldest first, and a channel that is
// closed when there are more.
func (a *API) Since(seq uint64) ([]Event, <-chan struct{}) {
	events, more := a.opts.Journal.After(seq)
	hide := a.hide()
	for i, e := range events {
		events[i].Text, events[i].Data = hide(e.Text), hideData(e.Data, hide)
	}
	return events, more
}

// Cursor is behind which event a reader wants to go on. Of another run it has
// seen none of these.
func (a *API) Cursor(r *http.Request) (uint64, *fault.Fault) {
	at := r.URL.Query().Get("after")
	if at == "" {
		at = r.Header.Get("Last-Event-ID")
	}
	if at == "" {
		return 0, nil
	}
	run, number, both := strings.Cut(at, "-")
	if !both {
		run, number = a.opts.Journal.Run(), at
	}
	seq, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return 0, fault.New(fault.Invalid, "events", "after must be the number of an event, or RUN-NUMBER")
	}
	if run != a.opts.Journal.Run() {
		return 0, nil
	}
	return seq, nil
}

// logs writes the kept stderr lines of a server, and with ?follow those to come.
func (a *API) logs(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if _, ok := a.opts.Hub.Server(name); !ok {
		a.fail(w, a.noServer("logs", name))
		return
	}
	lines, err := a.opts.Hub.Logs(name)
	if err != nil {
		a.fail(w, err)
		return
	}
	out := newLineWriter(w)
	tick := time.NewTicker(logPoll)
	defer tick.Stop()
	var last uint64
	for {
		hide := a.hide()
		for _, l := range Newer(lines, last) {
			if out.enc.Encode(LogLine{l.Time, l.Gen, hide(l.Text), l.N}) != nil {
				return
			}
			last = l.N
		}
		if out.ctl.Flush() != nil || !follows(r) {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		case <-a.stop:
			end(w, endStopped)
			return
		}
		if lines, err = a.opts.Hub.Logs(name); err != nil {
			end(w, endRemoved)
			return
		}
	}
}

// Newer returns the lines behind number last: all of them where the count began
// anew.
func Newer(lines []everline.LogLine, last uint64) []everline.LogLine {
	if n := len(lines); n > 0 && lines[n-1].N < last {
		return lines
	}
	return lines[sort.Search(len(lines), func(i int) bool { return lines[i].N > last }):]
}

// failedStream is what a client gets where a stream broke off.
func failedStream(err error) *fault.Fault {
	return &fault.Fault{
		Kind: fault.Broken, Op: "follow", Remedy: "everline status",
		Err: fmt.Errorf("everline broke off, without having shut down: %w", err),
	}
}
