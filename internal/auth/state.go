package auth

import (
	"fmt"
	"reflect"
	"time"

	"github.com/everline/everline/fault"
)

// A Phase is how a credential is.
type Phase uint8

const (
	// NoCredential: nothing is stored, and nobody has asked for anything yet.
	NoCredential Phase = iota
	// OK: there is a token that should be accepted.
	OK
	// Refreshing: the token is over, and a refresh is running.
	Refreshing
	// Retrying: a refresh failed for now; State.RetryAt says when the next is.
	// Calls go on with the old token until it is refused.
	Retrying
	// NeedsLogin: only a person can help, by State.Remedy.
	NeedsLogin
	// Misconfigured: only another configuration can help.
	Misconfigured
)

var phaseNames = [...]string{"none", "ok", "refreshing", "retrying", "needs_login", "misconfigured"}

// String returns the phase's name in status.
func (p Phase) String() string { return phaseNames[p] }

// A State is a credential as it was at one moment. It is never changed.
type State struct {
	Kind            Kind
	Phase           Phase
	Issuer, Subject string
	Scopes          []string  // granted; where the issuer did not say, those that were requested
	Serial          uint64    // of the token; it grows with each
	ExpiresAt       time.Time // zero: unknown
	RefreshedAt     time.Time // when the token was issued
	Since           time.Time // of Phase
	RetryAt         time.Time // valid for Retrying
	Cause, Remedy   string    // valid for Retrying, NeedsLogin and Misconfigured
	// Suspect: the server refused a token that should be good, and another one
	// cannot be had, or would be no better.
	Suspect bool
	// Dead: a refresh was refused for good, what there was is over, or nothing is
	// stored. No probe can help before a login.
	Dead bool
	// Refreshes and Failures are counted since the program started.
	Refreshes, Failures uint64
	// Changed is closed as soon as there is a newer state.
	Changed <-chan struct{}
	changed chan struct{}
}

// open returns the state with a Changed that is open.
func (s State) open() *State {
	s.changed = make(chan struct{})
	s.Changed = s.changed
	return &s
}

// same tells whether there is nothing to publish.
func (s State) same(o *State) bool {
	s.Since, s.Changed, s.changed = o.Since, o.Changed, o.changed
	return reflect.DeepEqual(&s, o)
}

const opAuth = fault.OpAuthorize

// notSent is a fault of a call that was not sent, or that the server refused
// before it looked at it.
func notSent(kind fault.Kind, err error, remedy string) *fault.Fault {
	return &fault.Fault{Kind: kind, Op: opAuth, Outcome: fault.NotSent, Err: err, Remedy: remedy}
}

func unavailable(err error, after time.Duration) *fault.Fault {
	f := notSent(fault.Unavailable, err, "")
	f.RetryAfter = max(after, time.Millisecond)
	return f
}

func loginRemedy(server string) string { return "run: everline auth login " + server }

// atPlace ends a remedy with where to correct something.
func (s *Spec) atPlace(what string) string {
	if s.Place == "" {
		return fmt.Sprintf("correct %s of %s", what, s.Server)
	}
	return fmt.Sprintf("correct %s of %s (%s)", what, s.Server, s.Place)
}
