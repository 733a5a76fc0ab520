package audit

import "time"

// refusals bound what somebody who is turned away can write into the record.
type refusals struct {
	window time.Time // when the second began that is counted
	n      int       // records of it
	rest   *Record   // stands for those beyond; nil if there are none
}

// refusalsEach is how many refusals of one second have a record of their own.
const refusalsEach = 20

// Refuse takes the record of a request that was refused before any server was meant.
// Where many come, the newest stands for the rest, with their number.
func (l *Log) Refuse(r *Record) {
	if !l.Wants(r.Type) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.refusals.passLocked(l, now)
	if l.refusals.n++; l.refusals.n <= refusalsEach {
		l.putLocked(r, l.closing || len(l.queue)+l.reserved >= maxQueue)
		return
	}
	r.Time, r.Count = now, 1
	if old := l.refusals.rest; old != nil {
		r.Count += old.Count
	}
	l.refusals.rest = r
	l.poke()
}

// passLocked begins another second where the last one is over.
func (f *refusals) passLocked(l *Log, now time.Time) {
	if now.Sub(f.window) < time.Second && !l.closing {
		return
	}
	if f.rest != nil {
		l.putLocked(f.rest, false)
	}
	*f = refusals{window: now}
}
