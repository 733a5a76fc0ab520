package slot

import (
	"fmt"
	"strings"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/lifecycle"
)

// saidMax is how many events of calls may wait for the loop; more are dropped,
// the counters of Counts are exact.
const saidMax = 64

// An Event is one thing that happened to one server. The set is closed: the
// types of this file.
type Event interface {
	// About says when, to which server, and to which life.
	About() Head
	// String is one line for people, without time and server.
	String() string
	event()
}

// A Head is what all events have.
type Head struct {
	Time   time.Time
	Server string
	Gen    uint64 // the life that it is about; 0 if none
	// Session is the client whose own life it is about; 0: the one that all
	// clients share. Generations count within it.
	Session uint64
}

// About returns the head itself; events inherit it.
func (h Head) About() Head { return h }
func (h Head) event()      {}

type (
	// Connecting: a life is being started.
	Connecting struct{ Head }
	// Connected: a life serves.
	Connected struct {
		Head
		Took  time.Duration // from its start to its first complete listing
		After time.Duration // how long no life served before it; 0 if none was lost
		Items [4]int        // by catalog.Kind
	}
	// StartFailed: a life did not come to serve.
	StartFailed struct {
		Head
		Cause *fault.Fault
		Next  time.Time // when the next attempt is due; zero if none is
	}
	// Lost: the link of the serving life ended, or it was given up for its strikes.
	Lost struct {
		Head
		Cause *fault.Fault
		Next  time.Time // when the next attempt is due; zero if it begins at once or none is
	}
	// Parked: no fast attempt is due any more.
	Parked struct {
		Head
		Reason lifecycle.Reason
		Cause  *fault.Fault // may be nil
		Remedy string       // a command or a sentence; "" if waiting is all there is to do
		Next   time.Time    // when the slow probe is due; zero if none is
	}
	// Idled: a lazy server was stopped until the next call.
	Idled struct{ Head }
	// Disabled: the server is not wanted any more.
	Disabled struct{ Head }
	// Enabled: the server is wanted.
	Enabled struct{ Head }
	// Reconfigured: another configuration applies.
	Reconfigured struct {
		Head
		NewLife bool // it cannot be applied without one
	}
	// CatalogChanged: what the server offers is not what it offered before.
	CatalogChanged struct {
		Head
		Change catalog.Change
	}
	// ListFailed: a listing failed; the last good catalog stays.
	ListFailed struct {
		Head
		Cause *fault.Fault
	}
	// Pinned: the definitions of a server without pins are approved as they are.
	Pinned struct {
		Head
		Tools int
	}
	// Unapproved: definitions are not as they were approved.
	Unapproved struct {
		Head
		Changed, New []string // tools
		Instructions bool
		Withheld     bool // they are not published until they are approved
	}
	// CloseFailed: a life would not end in order.
	CloseFailed struct {
		Head
		Cause *fault.Fault
	}
	// DrillBegan: a drill breaks the server on purpose.
	DrillBegan struct {
		Head
		Fault string
		For   time.Duration // 0 for a fault that strikes once
	}
	// DrillEnded: a drill is over.
	DrillEnded struct {
		Head
		Fault string
		Well  bool          // the server answered again
		Took  time.Duration // from the fault's end until then
	}
	// CallReplayed: a call is sent again after it failed on life Gen.
	CallReplayed struct {
		Head
		Method string
		Name   string
		Cause  *fault.Fault
	}
	// CallFailed: a call failed for good, in a way that blames the link or
	// because no answer came in time.
	CallFailed struct {
		Head
		Method string
		Name   string
		Cause  *fault.Fault
	}
)

func (e Connecting) String() string { return fmt.Sprintf("connecting (generation %d)", e.Gen) }

func (e Connected) String() string {
	text := fmt.Sprintf("connected (generation %d) in %s, %d tools", e.Gen, short(e.Took), e.Items[catalog.Tools])
	if e.After > 0 {
		text += ", " + short(e.After) + " after the link was lost"
	}
	return text
}

func (e StartFailed) String() string {
	return fmt.Sprintf("start failed (generation %d): %s%s", e.Gen, e.Cause.Text(), e.next(e.Next))
}

func (e Lost) String() string {
	return fmt.Sprintf("lost (generation %d): %s%s", e.Gen, e.Cause.Text(), e.next(e.Next))
}

func (e Parked) String() string {
	text := "parked: " + reasonWords[e.Reason]
	if e.Cause != nil {
		text += ": " + e.Cause.Text()
	}
	text += e.next(e.Next)
	if e.Remedy != "" {
		text += "; " + e.Remedy
	}
	return text
}

func (e Idled) String() string    { return fmt.Sprintf("stopped after idling (generation %d)", e.Gen) }
func (e Disabled) String() string { return "disabled" }
func (e Enabled) String() string  { return "enabled" }

func (e Reconfigured) String() string {
	if e.NewLife {
		return "reconfigured: a new life is needed"
	}
	return "reconfigured without a restart"
}

func (e CatalogChanged) String() string {
	return fmt.Sprintf("catalog changed (generation %d): %s", e.Gen, changeWords(e.Change))
}

func (e ListFailed) String() string {
	return fmt.Sprintf("listing failed (generation %d), the last good catalog stays: %s", e.Gen, e.Cause.Text())
}

func (e Pinned) String() string {
	return fmt.Sprintf("first seen: %d tools are pinned as they are", e.Tools)
}

func (e Unapproved) String() string {
	var parts []string
	if len(e.Changed) > 0 {
		parts = append(parts, "changed since approved: "+nameList(e.Changed))
	}
	if len(e.New) > 0 {
		parts = append(parts, "never approved: "+nameList(e.New))
	}
	if e.Instructions {
		parts = append(parts, "the instructions have changed since approved")
	}
	if e.Withheld {
		parts = append(parts, "withheld")
	}
	return strings.Join(parts, "; ") + "; everline tools diff " + e.Server
}

func (e CloseFailed) String() string {
	return fmt.Sprintf("generation %d would not end in order: %s", e.Gen, e.Cause.Text())
}

func (e DrillBegan) String() string {
	text := "a drill breaks it on purpose: " + e.Fault
	if e.For > 0 {
		text += " for " + short(e.For)
	}
	return text
}

func (e DrillEnded) String() string {
	if !e.Well {
		return "the drill is over (" + e.Fault + "), and the server does not answer"
	}
	return fmt.Sprintf("the drill is over (%s): the server answered %s after it", e.Fault, short(e.Took))
}

func (e CallReplayed) String() string {
	return fmt.Sprintf("%s is sent again (failed on generation %d: %s)", callWords(e.Method, e.Name), e.Gen, e.Cause.Text())
}

func (e CallFailed) String() string {
	return fmt.Sprintf("%s failed (generation %d, outcome %s): %s", callWords(e.Method, e.Name), e.Gen, outcomeWords(e.Cause), e.Cause.Text())
}

var reasonWords = map[lifecycle.Reason]string{
	lifecycle.None:    "no reason",
	lifecycle.Budget:  "the fast attempts are used up",
	lifecycle.Auth:    "a login is needed",
	lifecycle.Config:  "it cannot run as configured",
	lifecycle.Missing: "the command is not there",
	lifecycle.Ended:   "it ended, and is not started again by itself",
}

func (h Head) next(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return ", next attempt in " + short(at.Sub(h.Time))
}

// short rounds a duration for reading.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	default:
		return d.Round(time.Millisecond).String()
	}
}

func callWords(method, name string) string { return strings.TrimSpace(method + " " + name) }

func outcomeWords(f *fault.Fault) string { return strings.ReplaceAll(f.Outcome.String(), "_", " ") }

// changeWords names what changed, kind by kind.
func changeWords(c catalog.Change) string {
	var parts []string
	for _, k := range catalog.Kinds {
		for _, d := range []struct {
			sign  string
			names []string
		}{{"+", c.Added[k]}, {"-", c.Removed[k]}, {"~", c.Changed[k]}} {
			if len(d.names) > 0 {
				parts = append(parts, k.String()+" "+d.sign+nameList(d.names))
			}
		}
		if c.Reordered[k] {
			parts = append(parts, k.String()+" in another order")
		}
	}
	if c.Instructions {
		parts = append(parts, "instructions")
	}
	return strings.Join(parts, "; ")
}

// nameList is a list of names, short enough for a line.
func nameList(names []string) string {
	const most = 8
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
