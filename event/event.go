// Package event holds what a hub says happened to its servers: one struct per
// kind of event, with documented fields. It decides nothing and sends nothing.
package event

import (
	"time"

	"github.com/everline/everline/fault"
)

// An Event is one thing that happened to one server, or with a client. The set is closed: it is
// the types of this package. A type switch tells them apart.
type Event interface {
	// About says when it happened, to which server, and to which generation.
	About() Head
	// String is one line for people, without the time and the server.
	String() string
	event()
}

// A Head is what all events have.
type Head struct {
	Time   time.Time
	Server string // its name in the configuration; "" for what is about none
	Gen    uint64 // the generation that the event is about; 0 if none
	// Session is the ID of the client that has this generation for itself; 0
	// where all clients share it. Generations count within a session.
	Session uint64
}

// About returns the head itself; events inherit it.
func (h Head) About() Head { return h }
func (h Head) event()      {}

// A Reason says why a server is stopped.
type Reason string

// The reasons.
const (
	Budget  Reason = "budget"  // the fast retries are over; a slow retry is due
	Auth    Reason = "auth"    // a login is needed
	Config  Reason = "config"  // it cannot run as configured
	Missing Reason = "missing" // its command is not there; a slow retry is due
	Ended   Reason = "ended"   // it ended, and restart lets nothing follow
)

// A State is how a server is seen, in every place that shows one.
type State string

// The states.
const (
	StateDisabled      State = "disabled"      // switched off, and nothing of it is alive
	StateIdle          State = "idle"          // lazy, and not running; a call starts it
	StateConnecting    State = "connecting"    // being started, and not up yet since it was enabled
	StateConnected     State = "connected"     // it serves calls
	StateReconnecting  State = "reconnecting"  // it was up before, and is being started again
	StateDisconnected  State = "disconnected"  // away; the next attempt is due soon, or restart forbids one
	StateDisabling     State = "disabling"     // switched off; its last generation is being closed
	StateAuthRequired  State = "auth_required" // stopped: a login is needed
	StateMisconfigured State = "misconfigured" // stopped: it cannot run as configured
	StateFailed        State = "failed"        // stopped: away for too long; a slow retry is due
)

// Off tells whether the server is switched off, or is just being.
func (s State) Off() bool { return s == StateDisabled || s == StateDisabling }

// Counts are how many items a server offers.
type Counts struct{ Tools, Prompts, Resources, Templates int }

// A Phase is one part of how a generation came up: see everline.HandshakePhase.
type Phase struct {
	Name string
	Took time.Duration
}

// A Change is the difference between two catalogs of one server.
type Change struct {
	Lists        []ListChange // those that differ, in the order tools, prompts, resources, templates
	Instructions bool         // the instructions differ
}

// A ListChange is the difference between two lists, by the server's own names.
type ListChange struct {
	Kind                    string // tools, prompts, resources, templates
	Added, Removed, Changed []string
	Reordered               bool // the same items stand in another order
}

type (
	// Connecting: a generation is being started.
	Connecting struct {
		Head
		Why string // a kind of fault, or first, call, operator, config, strikes, drill
	}

	// Connected: a generation serves.
	Connected struct {
		Head
		Took  time.Duration // from its start to its first complete listing
		After time.Duration // how long no generation served before it; 0 if none was lost
		Items Counts
		// Phases are how it came up, in order: as in a server's status.
		Phases []Phase
	}

	// StartFailed: a generation did not come to serve.
	StartFailed struct {
		Head
		Cause *fault.Fault // never nil
		Next  time.Time    // when the next attempt is due; zero if none is
		// Attempt is how many generations were lost in a row, this one included.
		Attempt int
	}

	// Lost: the link of the serving generation ended, or it was given up for
	// its strikes.
	Lost struct {
		Head
		Cause *fault.Fault // never nil
		Next  time.Time    // when the next attempt is due; zero if it begins immediately or none is
		// Attempt is how many generations were lost in a row, this one included.
		Attempt int
	}

	// Stopped: no fast attempt is due any more.
	Stopped struct {
		Head
		Reason Reason
		Cause  *fault.Fault // may be nil
		Remedy string       // a command or a sentence; "" if waiting is all there is to do
		Next   time.Time    // when the slow retry is due; zero if none is
	}

	// OlderWanted: a server that speaks both eras asks its clients in the way of the
	// older one. Clients of that era get generations of their own from now on.
	OlderWanted struct{ Head }

	// Idled: a lazy server was stopped until the next call.
	Idled struct{ Head }

	// Disabled: the configuration or an operator has disabled the server.
	Disabled struct{ Head }
	// Ending: the server ends without having been disabled.
	Ending struct {
		Head
		Why string // a sentence
	}

	// Enabled: the server is wanted.
	Enabled struct{ Head }

	// Reconfigured: another configuration applies.
	Reconfigured struct {
		Head
		NewGeneration bool // it applies with the next generation, which is started
	}

	// CatalogChanged: what the server offers is not what it offered before.
	CatalogChanged struct {
		Head
		Change Change
	}

	// ListFailed: a listing failed; the last good catalog stays.
	ListFailed struct {
		Head
		Cause *fault.Fault // never nil
	}

	// Pinned: the definitions of a server without pins are approved as they are.
	Pinned struct {
		Head
		Tools int // how many
	}

	// Unapproved: definitions are not as they were approved.
	Unapproved struct {
		Head
		Changed, New []string // the server's own names of tools
		Instructions bool     // the instructions differ from the approved ones
		Withheld     bool     // they are not published until they are approved
	}

	// CloseFailed: a generation would not end in order.
	CloseFailed struct {
		Head
		Cause *fault.Fault // never nil
	}

	// Operated: somebody changed something by hand, through the admin API or the
	// page. A hub never says it.
	Operated struct {
		Head          // Server is "" for what is about none
		By     string // "cli" or "web"
		Action string // enable, disable, reconnect, restart, approve, reload, login, logout, drill or call
		Detail string // what it was done to beside the server, such as a tool; may be ""
	}

	// DrillBegan: a drill breaks the server on purpose.
	DrillBegan struct {
		Head
		Fault string        // the word for it, as in everline drill --list
		For   time.Duration // 0 for a fault that happens once
	}

	// DrillEnded: a drill is over.
	DrillEnded struct {
		Head
		Fault     string
		Recovered bool          // the server answered again
		Took      time.Duration // from the fault's end until then
	}

	// CallReplayed: a call is sent again after it failed on generation Gen.
	CallReplayed struct {
		Head
		Method string
		Name   string // the server's own name of the tool or prompt, or a URI
		Cause  *fault.Fault
		Trace  [16]byte // the id of the trace that it is recorded in; zero for none
	}

	// CallFailed: a call failed for good, in a way that blames the link or
	// because no answer came in time.
	CallFailed struct {
		Head
		Method string
		Name   string // as in CallReplayed
		Cause  *fault.Fault
		Trace  [16]byte // as in CallReplayed
	}

	// ClientRefused: requests of a client were refused by what it may do. Its head
	// names no server. Of one client and reason there is one in 10 s at most.
	ClientRefused struct {
		Head
		Client     string        // its identity: how it was shown, and whose it is
		Policies   []string      // that it has
		Reason     string        // nothing_granted, tool, server, rate, concurrent, sessions or body
		Method     string        // of the newest of them
		RetryAfter time.Duration // when that may come again; 0 for never
		Count      int           // how many there were since the last such event
	}
)
