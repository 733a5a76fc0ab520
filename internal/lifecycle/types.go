// Package lifecycle decides what happens to one server: a pure step from a
// state and an event to the next state and the effects to run. It does not
// read a clock, draw a random number, log, or start anything.
package lifecycle

import "time"

// Phase is where a slot stands. What people see is derived from it and the
// other facts by State.Seen.
type Phase uint8

const (
	Off      Phase = iota // not wanted, and nothing is alive
	Idle                  // wanted, lazy: not started, or stopped after idling
	Starting              // a generation is being started
	Ready                 // a generation serves
	Draining              // a generation is being ended, and the next one, if any is wanted, waits for that
	Backoff               // waiting for the next fast attempt
	Stopped               // no fast attempt is due; State.Stopped says why
)

// Reason says why a slot is Stopped.
type Reason uint8

const (
	None    Reason = iota
	Budget         // it is away for longer than Policy.FastFor; a slow retry is due
	Auth           // a login is needed; a look whether it still is, is due unless State.LoginOnly
	Config         // the configuration is wrong; only a new spec or an operator helps
	Missing        // the command does not exist; a slow retry is due, it may be installed
	Ended          // it ended, and Restart lets no other generation follow; only a new spec or an operator helps
)

// Next says what the next generation waits for.
type Next uint8

const (
	NoNext       Next = iota // no further generation is wanted now
	NextSlotFree             // nothing but room: it starts as soon as few enough generations are alive
	NextCall                 // a call: the server is lazy
	NextTimer                // RetryDue
	NextStopped              // what State.Stopped says
)

// Verdict is what an attempt's or a generation's end means for the next attempt.
type Verdict uint8

const (
	Retry      Verdict = iota // may succeed if tried again
	NeedAuth                  // needs a login, or somebody who corrects what it is shown
	BadConfig                 // cannot succeed as configured
	NotThere                  // the command is not there
	CleanEnd                  // the peer ended in order: exit 0, a clean EOF, an idle close
	SessionEnd                // the server forgot the session: not the link's fault, start anew immediately
	NeedToken                 // as NeedAuth, of a login that lives: the next token may be let in, and no call's wish helps
	NeedLogin                 // as NeedAuth, and nothing but a login helps
	AwaitToken                // it was not asked: what it is to be shown cannot be had for now
)

// ofCredential tells the ends that say nothing about the server: they are no loss.
func (v Verdict) ofCredential() bool {
	return v == NeedAuth || v == NeedToken || v == NeedLogin || v == AwaitToken
}

// State is all that is known about one slot. It is a comparable value; Step
// returns a new one. The zero State, or one with only Gen set, is a slot that
// nobody has wanted yet.
//
// At most one of the generations Trying, Serving and Closing is alive where
// Overlap is off, at most two where it is on.
type State struct {
	Gen         uint64    // newest generation ever started; never goes down
	Want        bool      // enabled, wanted by the config, owned by this replica
	Lazy        bool      // start on the first call only
	Overlap     bool      // a successor may start while the old generation still serves
	Spec        uint64    // wanted config revision
	RunSpec     uint64    // the revision that Gen was started with
	Trying      uint64    // the generation that is being started: Gen, or 0 if none
	Serving     uint64    // the generation that takes leases; 0 if none. Below Gen while a successor starts beside it, or failed to
	ServingSpec uint64    // the revision that Serving was started with; valid if Serving is not 0
	Proven      bool      // Serving has proven its health; valid if Serving is not 0
	Closing     [2]uint64 // those that are being ended and have not reported Closed, the first one first; 0 where there is none
	LastLost    uint64    // the generation whose loss Attempt counted last, if it had served and no later generation served or failed; else 0
	Attempt     int       // generations lost in a row since health was last proven
	Returns     int       // starts since then that Returned has brought forward
	Brought     bool      // the next start, or that of Trying, is one of those
	ListStrikes int       // failed discoveries in a row on Serving
	CallStrikes int       // failed calls in a row on Serving that blame the link
	Next        Next      // what the next generation waits for; beside Serving: the successor
	Stopped     Reason    // why; valid in NextStopped, None otherwise
	NoEarlyWake bool      // the wait is the server's own Retry-After, the credential's, or the start limit: no call shortens it; valid in NextTimer and NextStopped
	LoginOnly   bool      // no look is due: nothing but a login, an operator or a new spec helps; valid if Stopped is Auth
	Unready     bool      // the wait is for something to show to the server, which is not away for all we know; valid in NextTimer
	ResumeIdle  bool      // NextCall follows the wait, as Restart lets no generation follow by itself and the server is lazy; false where no wait has an end
	WasReady    bool      // was ready at least once since it was enabled
}

// An Event is something that happened. The set is closed.
type Event interface{ event() }

type (
	// Want: config, an operator or ownership says whether and how the server
	// shall run. The same Want again changes nothing.
	Want struct {
		Want    bool
		Lazy    bool
		Overlap bool
		Spec    uint64
	}
	// Wake: a call, or an operator, asks for a generation now.
	Wake struct {
		Operator bool // an operator may wake any wanted slot at any time, and recycles one that is Ready or Starting
		// TooSoon: a call's wake brought a slow retry forward less than
		// Policy.WakeEvery ago; this one then brings none forward.
		TooSoon bool
	}
	// Started: generation Gen finished its handshake and its first complete listing.
	Started struct{ Gen uint64 }
	// Failed: generation Gen did not get that far. Nothing of it is alive any more.
	Failed struct {
		Gen     uint64
		Verdict Verdict
		After   time.Duration // the server's own Retry-After; 0 if none
		Recent  int           // starts in the last minute, this one included
		Down    time.Duration // since the first of the losses in a row; 0 if this is the first
	}
	// Exited: generation Gen, which had Started, lost its link. What is left of
	// it must still be closed.
	Exited struct {
		Gen     uint64
		Verdict Verdict
		After   time.Duration
		Recent  int
		Down    time.Duration
	}
	// Struck: a discovery or a call on generation Gen failed in a way that
	// blames the link.
	Struck struct {
		Gen    uint64
		List   bool
		Recent int // starts in the last minute
		Down   time.Duration
	}
	// Healthy: a discovery or a call on generation Gen got a good answer. That
	// of a call may arrive after the Exited of its generation and still counts.
	Healthy struct {
		Gen  uint64
		List bool
	}
	// Stable: generation Gen has been ready for Policy.StableAfter without a strike.
	Stable struct{ Gen uint64 }
	// Idled: generation Gen of a lazy server has had no lease for its idle timeout.
	Idled struct{ Gen uint64 }
	// Closed: the Stop of generation Gen has finished. Err tells that something
	// would not stop in order; it is shown, and changes nothing here.
	Closed struct {
		Gen uint64
		Err bool
	}
	// RetryDue: the retry timer that was armed for the attempt after Gen fired.
	RetryDue struct{ Gen uint64 }
	// Returned: what the attempt Gen failed for has been seen to be there again,
	// a port that refused or a file that has changed.
	Returned struct{ Gen uint64 }
)

func (Want) event()     {}
func (Wake) event()     {}
func (Started) event()  {}
func (Failed) event()   {}
func (Exited) event()   {}
func (Struck) event()   {}
func (Healthy) event()  {}
func (Stable) event()   {}
func (Idled) event()    {}
func (Closed) event()   {}
func (RetryDue) event() {}
func (Returned) event() {}

// An Effect is something to do. The set is closed. Effects are run in order.
type Effect interface{ effect() }

// Timer names one of the slot's two timers.
type Timer uint8

const (
	RetryTimer  Timer = iota // fires RetryDue
	StableTimer              // fires Stable
)

type (
	// Start begins generation Gen with config revision Spec, in a worker, which
	// ends in exactly one Started or Failed.
	Start struct{ Gen, Spec uint64 }
	// Stop ends generation Gen in a worker: no new leases; with Drain the
	// leases that are out are waited for up to the drain deadline; then the
	// upstream, or the start that is still running, is ended. It ends in
	// exactly one Closed.
	Stop struct {
		Gen   uint64
		Drain bool
	}
	// Arm sets a timer for generation Gen; one that is set already is set anew.
	// The loop draws the actual delay between Least and After when Jitter is
	// set ("full jitter" where Least is 0), and reports it in the view.
	Arm struct {
		Timer  Timer
		Gen    uint64
		After  time.Duration
		Jitter bool
		Least  time.Duration // valid with Jitter
		// Keep has the timer fire no later than the one that Returned cut short
		// would have; valid with RetryTimer.
		Keep bool
		// Heed is from when on Returned is to be reported while the timer runs;
		// valid with RetryTimer.
		Heed time.Duration
	}
	// Disarm stops a timer. It may have just fired.
	Disarm struct{ Timer Timer }
	// Publish puts out a view of the new state. Always the last effect of a
	// step that changed the state; a step that did not has no effects.
	Publish struct{}
)

func (Start) effect()   {}
func (Stop) effect()    {}
func (Arm) effect()     {}
func (Disarm) effect()  {}
func (Publish) effect() {}

// Policy holds every number of the lifecycle.
type Policy struct {
	Strikes       int           // failures in a row that recycle a generation; 3
	FastFor       time.Duration // how long after the loss retries are fast; 10 min
	FirstDelay    time.Duration // delay before the second retry; the first is immediately; 1 s
	MaxDelay      time.Duration // where doubling stops; 30 s, and 10 s for a URL
	Sessions      int           // sessions lost in a row that are replaced without a delay; 5
	SlowProbe     time.Duration // delay of the slow retry; 2 min
	LoginProbe    time.Duration // the same where a login is needed; 5 min
	StableAfter   time.Duration // ready time that proves health; 30 s
	MaxStarts     int           // starts in a minute beyond which the growing delay applies whatever the health; 60; 0: no limit
	MaxRetryAfter time.Duration // the longest Retry-After of a server that is kept; 1 h; 0: any
	WakeEvery     time.Duration // how often calls may bring a slow retry forward; 10 s; measured by the loop, see Wake.TooSoon
	Restart       Restart
}

// Restart says what ends are followed by a new generation.
type Restart uint8

const (
	Always    Restart = iota
	OnFailure         // not after a clean end
	Never             // only by an operator, a new spec, or a call where the server is lazy; such calls are paced as retries are
)
