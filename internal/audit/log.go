package audit

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
)

// Options make a Log.
type Options struct {
	Folder   string // of the files, made where it is not there; "": they go to Out
	Out      Sink   // takes the lines where there is no folder
	Run      string // of the process: what its ids begin with
	Settings config.Audit
	Hide     func(text string) string       // takes secrets out of a text; nil: there are none
	Warn     func(text string, cause error) // hears of what went wrong, once for each trouble; may be nil
}

// A Sink takes lines.
type Sink interface{ Write(p []byte) (int, error) }

// maxQueue is how many records may wait for the disk.
const maxQueue = 4096

const (
	flushAfter = 200 * time.Millisecond // how long a record may wait for others
	flushAt    = maxQueue / 4           // records that wait no longer
	syncAfter  = time.Second            // from a write to when the disk has it
	retryAfter = time.Second            // from a write that failed to the next attempt
)

// A Log takes records and writes them, on one goroutine, which ends with Close. A nil
// Log takes none. Its methods may be called by many goroutines at a time, and none
// but Sync and Close waits.
type Log struct {
	o       Options
	set     atomic.Pointer[config.Audit]
	lost    atomic.Uint64
	trouble trouble
	key     func() ([]byte, error)

	mu       sync.Mutex // guards the rest; nothing waits under it
	queue    []*Record
	reserved int           // places for records to come
	missing  uint64        // lost records that no record tells of yet
	queued   uint64        // records that were ever queued
	done     uint64        // of those, the ones that are written
	synced   uint64        // of those, the ones that the disk has
	hurry    bool          // somebody waits for the file
	durable  bool          // somebody waits for the disk
	changed  chan struct{} // closed and replaced when done or synced has grown, or an attempt has failed
	closing  bool
	refusals refusals

	wake  chan struct{} // one slot: there is something to do
	ended chan struct{} // closed when the goroutine has ended
}

// Open opens the record. An error says that it cannot be written now; then the Log
// works all the same, and goes on trying, and it is the caller's to close it where
// it shall not.
func Open(o Options) (*Log, error) {
	if o.Hide == nil {
		o.Hide = func(text string) string { return text }
	}
	l := &Log{o: o, changed: make(chan struct{}), wake: make(chan struct{}, 1), ended: make(chan struct{})}
	l.trouble.hear = o.Warn
	l.key = sync.OnceValues(func() ([]byte, error) { return argumentKey(o.Folder) })
	l.Set(o.Settings)
	w := &writer{log: l, files: files{folder: o.Folder}}
	var err error
	if o.Settings.Level != config.AuditOff {
		err = w.openFirst()
		l.trouble.note("the audit record cannot be written", err)
	}
	go func() { // ends with Close
		defer close(l.ended)
		w.run()
	}()
	return l, err
}

// Set applies other settings. Path takes effect with a new Log alone.
func (l *Log) Set(s config.Audit) {
	if l != nil {
		l.set.Store(&s)
	}
}

func (l *Log) settings() *config.Audit { return l.set.Load() }

// Level is what is recorded.
func (l *Log) Level() config.AuditLevel {
	if l == nil {
		return config.AuditOff
	}
	return l.settings().Level
}

// Off tells whether nothing at all is recorded.
func (l *Log) Off() bool { return l.Level() == config.AuditOff }

// Strict tells whether nothing may happen that cannot be recorded.
func (l *Log) Strict() bool {
	return l != nil && l.settings().Strict && l.settings().Level != config.AuditOff
}

// Lost is how many records could not be kept.
func (l *Log) Lost() uint64 {
	if l == nil {
		return 0
	}
	return l.lost.Load()
}

// Problem is why nothing can be written now, and since when; nil if it can.
func (l *Log) Problem() (since time.Time, err error) {
	if l == nil {
		return since, nil
	}
	l.trouble.mu.Lock()
	defer l.trouble.mu.Unlock()
	return l.trouble.since, l.trouble.err
}

// Wants tells whether a type of record is kept.
func (l *Log) Wants(kind string) bool {
	switch l.Level() {
	case config.AuditOff:
		return false
	case config.AuditCalls:
		return true
	default:
		return kind != TypeCall && kind != TypeRefusal && kind != TypeSession
	}
}

// WantsCall tells whether a call that ended in this way is recorded.
func (l *Log) WantsCall(result event.CallResult) bool {
	return l.Wants(TypeCall) || result == event.CallUnknown && l.Level() != config.AuditOff
}

// Note takes a record, which is the Log's from then on. What is not wanted is
// dropped; where there is no room it is lost, and counted.
func (l *Log) Note(r *Record) {
	if l == nil || l.Level() == config.AuditOff {
		return
	}
	l.mu.Lock()
	full := l.closing || len(l.queue)+l.reserved >= maxQueue
	l.putLocked(r, full)
	l.mu.Unlock()
}

func (l *Log) putLocked(r *Record, full bool) {
	if full {
		l.lost.Add(1)
		l.missing++
	} else {
		r.Time = timeOf(r)
		l.queue = append(l.queue, r)
		l.queued++
	}
	l.poke()
}

func timeOf(r *Record) time.Time {
	if r.Time.IsZero() {
		return time.Now()
	}
	return r.Time
}

func (l *Log) poke() {
	select {
	case l.wake <- struct{}{}:
	default: // it is awake
	}
}

// A Place is room for one record that is to come. The zero value has none.
type Place struct{ l *Log }

// Reserve is why something may not happen, where that is to be recorded in any case
// and cannot be; else it keeps a place for the record.
func (l *Log) Reserve(op string) (Place, *fault.Fault) {
	if !l.Strict() {
		return Place{}, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.trouble.now()
	if err == nil && (l.closing || len(l.queue)+l.reserved >= maxQueue) {
		err = errors.New("too many records wait for the disk")
	}
	if err != nil {
		return Place{}, &fault.Fault{
			Kind: fault.Overloaded, Op: op, Outcome: fault.NotSent, RetryAfter: retryAfter, Err: notRecorded{err},
		}
	}
	l.reserved++
	return Place{l}, nil
}

type notRecorded struct{ error }

func (e notRecorded) Error() string {
	return "it cannot be recorded, and audit.strict lets nothing happen unrecorded"
}
func (e notRecorded) Unwrap() error { return e.error }

// Fill puts the record into the place, which there is no more then.
func (p *Place) Fill(r *Record) {
	if p.l == nil {
		return
	}
	l := p.l
	p.l = nil
	l.mu.Lock()
	l.reserved--
	l.putLocked(r, false)
	l.mu.Unlock()
}

// Held tells whether the place is still there.
func (p *Place) Held() bool { return p.l != nil }

// Free gives the place back, if it is still there.
func (p *Place) Free() {
	if p.l == nil {
		return
	}
	p.l.mu.Lock()
	p.l.reserved--
	p.l.mu.Unlock()
	p.l = nil
}

// Written waits until everything that was noted before is in the file. Everline may
// be killed then, and the record stays.
func (l *Log) Written(ctx context.Context) error {
	return l.await(ctx, func() uint64 { return l.done }, new(bool))
}

// Sync waits until everything that was noted before is on the disk. The machine may
// fail then, and the record stays.
func (l *Log) Sync(ctx context.Context) error {
	if l == nil {
		return nil
	}
	return l.await(ctx, func() uint64 { return l.synced }, &l.durable)
}

// await waits until the count, which is read under the lock as the flag is set, has
// come to what is queued now. It fails with the attempt to write.
func (l *Log) await(ctx context.Context, count func() uint64, flag *bool) error {
	if l == nil || l.Level() == config.AuditOff {
		return nil
	}
	l.mu.Lock()
	until := l.queued
	for count() < until {
		l.hurry, *flag = true, true
		changed := l.changed
		l.mu.Unlock()
		l.poke()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := l.trouble.now(); err != nil {
			return err
		}
		l.mu.Lock()
	}
	l.mu.Unlock()
	return nil
}

// Close writes what there is, and ends the Log. An error says that something is
// not written, or that ctx has ended before.
func (l *Log) Close(ctx context.Context) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	l.closing = true
	l.mu.Unlock()
	l.poke()
	select {
	case <-l.ended:
		return l.trouble.now()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// trouble is what keeps the record from being written.
type trouble struct {
	hear func(text string, cause error)

	mu    sync.Mutex // guards the rest
	err   error
	since time.Time // of err; valid where that is not nil
}

func (t *trouble) now() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// note takes how an attempt went, and warns where that is new.
func (t *trouble) note(text string, err error) {
	t.mu.Lock()
	fresh := err != nil && t.err == nil
	t.err = err
	if fresh {
		t.since = time.Now()
	}
	t.mu.Unlock()
	if fresh {
		t.warn(text, err)
	}
}

func (t *trouble) warn(text string, err error) {
	if t.hear != nil {
		t.hear(text, err)
	}
}
