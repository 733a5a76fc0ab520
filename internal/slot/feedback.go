package slot

import "sync/atomic"

// A feedback holds what releases have to tell the loop, coalesced: whether there
// was a good answer that the loop does not know of, and how many doubts
// followed it. So nothing queues up, and the order "good, then bad" is kept.
type feedback struct{ v atomic.Uint32 }

const (
	feedbackKnown = 1 << 31 // the loop knows of a good answer, and nothing bad followed
	feedbackGood  = 1 << 30 // a good answer that the loop does not know of
)

// good tells whether the loop has to be woken.
func (f *feedback) good() bool {
	for {
		v := f.v.Load()
		if v == feedbackKnown || v == feedbackGood {
			return false
		}
		if f.v.CompareAndSwap(v, feedbackGood) {
			return true
		}
	}
}

func (f *feedback) doubt() {
	for {
		v := f.v.Load()
		if f.v.CompareAndSwap(v, v&^feedbackKnown+1) {
			return
		}
	}
}

// take empties it: first the good answer, then the doubts.
func (f *feedback) take() (good bool, doubts int) {
	for {
		v := f.v.Load()
		doubts = int(v &^ (feedbackKnown | feedbackGood))
		good = v&feedbackGood != 0
		next := uint32(0)
		if doubts == 0 && v != 0 {
			next = feedbackKnown
		}
		if f.v.CompareAndSwap(v, next) {
			return good, doubts
		}
	}
}
