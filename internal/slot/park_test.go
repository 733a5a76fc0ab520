package slot

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/everline/everline/internal/lifecycle"
)

// A stretch is a part of a schedule in which one view is out.
type stretch struct {
	from, to time.Time // to is zero for the last one
	p        prospects
	serves   bool
}

// schedule draws what a supervisor does: drains, attempts that take their time
// and fail, growing delays that an operator may cut short, and in the end a
// generation, a slow retry that is far away, or nothing.
func schedule(t *rapid.T, t0 time.Time) []stretch {
	span := func(label string, most int) time.Duration {
		return time.Duration(rapid.IntRange(1, most).Draw(t, label)) * second
	}
	var all []stretch
	now := t0
	add := func(d time.Duration, p prospects) {
		p.want = true
		all = append(all, stretch{from: now, to: now.Add(d), p: p})
		now = now.Add(d)
	}
	if rapid.Bool().Draw(t, "drains first") {
		add(span("drain", 12), prospects{phase: lifecycle.Draining})
	}
	for range rapid.IntRange(1, 6).Draw(t, "attempts") {
		add(span("attempt takes", 70), prospects{phase: lifecycle.Starting, began: now})
		if rapid.IntRange(0, 3).Draw(t, "works") == 0 {
			return append(all, stretch{from: now, serves: true})
		}
		delay := span("delay", 45)
		due := now.Add(delay)
		if rapid.IntRange(0, 5).Draw(t, "cut short") == 0 {
			delay = min(delay, span("after", 45))
		}
		add(delay, prospects{phase: lifecycle.Backoff, next: due})
	}
	last := prospects{want: true, phase: lifecycle.Stopped}
	switch rapid.IntRange(0, 2).Draw(t, "end") {
	case 0:
		last.next = now.Add(5 * time.Minute)
	case 1:
		last.want = false
	}
	return append(all, stretch{from: now, p: last})
}

// fate is what must become of a call, found from the whole schedule immediately.
func fate(all []stretch, now, limit, deadline time.Time) (end time.Time, served bool) {
	bound := limit
	if deadline.Before(bound) {
		bound = deadline
	}
	for _, s := range all {
		if !s.to.IsZero() && !s.to.After(now) {
			continue
		}
		at := later(now, s.from)
		if !at.Before(deadline) {
			return deadline, false
		}
		stays := s.to.IsZero() // nothing more happens
		switch {
		case s.serves:
			return at, true
		case !s.p.want:
			return at, false
		case s.p.phase == lifecycle.Starting && s.p.began.After(limit):
			return at, false
		case s.p.phase == lifecycle.Draining && s.to.After(bound):
			return later(at, bound), false
		case s.p.phase == lifecycle.Backoff && (s.p.next.After(bound) || !at.Before(bound)):
			return at, false
		case stays && (s.p.next.IsZero() || s.p.next.After(bound)):
			return at, false
		}
	}
	panic("bug: the schedule has no end")
}

// For every schedule, start time and deadline: no call gives up while an
// attempt that was due before its limit is running, none waits when nothing is
// due in time, and all end exactly when the schedule says.
func TestParkingOverSchedules(t *testing.T) {
	t0 := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		all := schedule(t, t0)
		now := t0.Add(time.Duration(rapid.IntRange(0, 150).Draw(t, "arrives")) * second)
		limit := now.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "parkFor")) * second)
		deadline := now.Add(time.Duration(rapid.IntRange(1, 200).Draw(t, "deadline")) * second)
		wantEnd, wantServed := fate(all, now, limit, deadline)
		for i := 0; ; {
			for !all[i].to.IsZero() && !all[i].to.After(now) {
				i++
			}
			s := all[i]
			if s.serves && now.Before(deadline) {
				if !wantServed || !now.Equal(wantEnd) {
					t.Fatalf("served at %s; want %s, served %v", now.Sub(t0), wantEnd.Sub(t0), wantServed)
				}
				return
			}
			until, ok := mayWait(s.p, now, limit, deadline)
			if !ok {
				if wantServed || !now.Equal(wantEnd) {
					t.Fatalf("gave up at %s; want %s, served %v", now.Sub(t0), wantEnd.Sub(t0), wantServed)
				}
				if s.p.want && s.p.phase == lifecycle.Starting && !s.p.began.After(limit) && now.Before(deadline) {
					t.Fatalf("gave up at %s while an attempt ran that was due in time", now.Sub(t0))
				}
				return
			}
			if p := s.p; p.phase == lifecycle.Backoff && p.next.After(limit) || p.phase == lifecycle.Stopped && p.next.IsZero() {
				t.Fatalf("waits at %s although nothing is due in time", now.Sub(t0))
			}
			next := until
			if !s.to.IsZero() && s.to.Before(until) {
				next = s.to
			}
			if !next.After(now) {
				t.Fatalf("at %s it waits for a moment that is over", now.Sub(t0))
			}
			now = next
		}
	})
}
