package event

import (
	"time"

	"github.com/everline/everline/fault"
)

// CallFacts are what is known of one call when it has ended: each call of a hub
// has them once, whatever became of it.
type CallFacts struct {
	Server     string // "" if no server was meant, or none that is known
	Session    uint64 // as in Head
	Gen        uint64 // the generation that it was sent to last; 0 if to none
	FirstGen   uint64 // the one that it was sent to first
	Method     string
	Name       string // the server's own name of the tool or prompt, or a URI; as the caller wrote it where no server was found
	Result     CallResult
	Kind       fault.Kind // why it failed; valid for NotSent, Unknown and Refused
	Saved      Saved
	Began      time.Time
	Took       time.Duration // from when the call came until its end
	Waited     time.Duration // of that, for a generation, a turn or the end of a pause
	Parked     bool          // it has waited for a generation while none served
	Upstream   time.Duration // of that, at the server: all sends together
	Sends      int
	ParamBytes int // of one send
	Bytes      int // of the result

	Exposed     string     // the published name by which the call came; "" where it named the server's own, or has none
	Client      uint64     // tells the callers apart, as everline.Client does; 0 for none
	By          *Caller    // what is known of the caller; nil for nothing
	Trace       [16]byte   // the id of the trace that the call is sure to be recorded in; zero for none
	Code        int64      // of the JSON-RPC error that the server has answered; 0 for none
	FirstFailed fault.Kind // what the first send failed with; valid if Sends > 1
}

// A Caller is what is known of who has made a call. It does not change.
type Caller struct {
	Name, Version string // what the client calls itself; "" where it has not said so
	Protocol      string // the revision that it speaks; "" for none
	Subject       string // the identity that was proven; "" for none
}

// CallResult is how a call ended.
type CallResult uint8

// The results.
const (
	CallAnswered  CallResult = iota // with a result
	CallToolError                   // with a result that says isError
	CallRPCError                    // with a JSON-RPC error of the server, or with what cannot be read
	CallNotSent                     // proof that the server did not execute it
	CallUnknown                     // it was sent, and whether it was executed cannot be told
	CallRefused                     // everline would not send it: the request is wrong, or it is not wanted now
	CallCanceled                    // the caller gave it up
)

// CallResults is how many results there are.
const CallResults = int(CallCanceled) + 1

var resultNames = [CallResults]string{"answered", "tool_error", "rpc_error", "not_sent", "unknown", "refused", "canceled"}

// String returns the result's stable name, as used in JSON and metrics.
func (r CallResult) String() string { return resultNames[r] }

// Answered tells whether the server has answered.
func (r CallResult) Answered() bool { return r <= CallRPCError }

// ResultOf is how a call ended that failed in this way.
func ResultOf(f *fault.Fault) CallResult {
	switch {
	case f.Kind == fault.RPC || f.Outcome == fault.Answered:
		return CallRPCError
	case f.Kind == fault.Canceled:
		return CallCanceled
	case f.Outcome == fault.Unknown:
		return CallUnknown
	}
	switch f.Kind {
	case fault.Disabled, fault.Overloaded, fault.NotFound, fault.Invalid, fault.TooLarge, fault.Unsupported, fault.Conflict:
		return CallRefused
	default:
		return CallNotSent
	}
}

// Saved is by what an answered call was saved that had failed without everline.
type Saved uint8

// The ways.
const (
	NotSaved  Saved = iota
	ByReplay        // a send of it failed, and it was sent again
	ByParking       // no generation served when it came, and it waited for one
)

func (s Saved) String() string { return [...]string{"", "replay", "parking"}[s] }
