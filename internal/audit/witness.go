package audit

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
)

// A Witness has recorded what becomes of one request to servers. A nil one has
// nothing recorded.
type Witness struct {
	log      *Log
	place    Place
	noted    bool
	name     string
	complete func(r *Record)
}

// Witness sees a request with a method, for what has a name there. It is nil where
// nothing is recorded. A fault says that the request may not be served, because it
// cannot be recorded. complete puts in who asked, and what.
func (l *Log) Witness(method, name string, complete func(r *Record)) (*Witness, *fault.Fault) {
	if l.Off() {
		return nil, nil
	}
	place, f := l.Reserve(method)
	if f != nil {
		return nil, f
	}
	return &Witness{log: l, place: place, name: name, complete: complete}, nil
}

// Observe takes the facts of a call that the request has caused.
func (w *Witness) Observe(f event.CallFacts) {
	if !w.log.WantsCall(f.Result) {
		return
	}
	r := recordOf(&f, w.name)
	w.complete(r)
	w.noted = true
	if w.place.Held() {
		w.place.Fill(r)
	} else {
		w.log.Note(r)
	}
}

// writeLimit is how long the answer to a request waits for its record.
const writeLimit = 5 * time.Second

// Over is the end of the request. What must be recorded is in the file then, or
// counted as lost: whether it was executed is no longer in question.
func (w *Witness) Over(ctx context.Context) {
	if w == nil {
		return
	}
	w.place.Free()
	if w.noted && w.log.Strict() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeLimit)
		defer cancel()
		_ = w.log.Written(ctx) // see above
	}
}

func recordOf(f *event.CallFacts, name string) *Record {
	r := &Record{
		Time: f.Began.Add(f.Took), Type: TypeCall, Action: f.Method, Outcome: f.Result.String(),
		Target: &Target{Server: f.Server}, Request: &Request{Bytes: f.ParamBytes},
		Took: millis(f.Took), Waited: millis(f.Waited), Sends: f.Sends, Saved: f.Saved.String(),
	}
	if f.Trace != [16]byte{} {
		r.TraceID = hex.EncodeToString(f.Trace[:])
	}
	if f.FirstGen != 0 {
		r.Target.Generations = append(r.Target.Generations, f.FirstGen)
	}
	if f.Gen != f.FirstGen {
		r.Target.Generations = append(r.Target.Generations, f.Gen)
	}
	switch {
	case f.Method == resourcesRead:
		r.Target.URI = name
	case f.Server != "":
		r.Target.Tool, r.Target.Exposed = f.Name, name
	default:
		r.Target.Exposed = name
	}
	if f.Result.Answered() {
		r.Result = &Result{Bytes: f.Bytes, IsError: f.Result != event.CallAnswered, Code: f.Code}
	} else {
		r.Kind = f.Kind.String()
	}
	return r
}

const resourcesRead = "resources/read"

func millis(d time.Duration) *float64 {
	ms := float64(d.Microseconds()) / 1000
	return &ms
}
