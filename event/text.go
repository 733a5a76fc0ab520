package event

import (
	"fmt"
	"strings"
	"time"

	"github.com/everline/everline/fault"
)

func (e Connecting) String() string { return fmt.Sprintf("connecting (generation %d)", e.Gen) }

func (e Connected) String() string {
	text := fmt.Sprintf("connected (generation %d) in %s, %s", e.Gen, Short(e.Took), tools(e.Items.Tools))
	if e.After > 0 {
		text += ", " + Short(e.After) + " after the link was lost"
	}
	return text
}

func (e StartFailed) String() string {
	return fmt.Sprintf("start failed (generation %d): %s%s", e.Gen, e.Cause.Reason(), e.next(e.Next))
}

func (e Lost) String() string {
	return fmt.Sprintf("lost (generation %d): %s%s", e.Gen, e.Cause.Reason(), e.next(e.Next))
}

func (e Stopped) String() string {
	text := "stopped: " + reasonWords[e.Reason]
	if e.Cause != nil {
		text += ": " + e.Cause.Reason()
	}
	text += e.next(e.Next)
	if e.Remedy != "" {
		text += "; " + e.Remedy
	}
	return text
}

func (e Idled) String() string { return fmt.Sprintf("stopped after idling (generation %d)", e.Gen) }
func (e OlderWanted) String() string {
	return "asks its clients in the way of versions before 2026-07-28: clients of those that can be asked get a generation of their own from now on"
}
func (e Disabled) String() string { return "disabled" }
func (e Ending) String() string   { return "ending: " + e.Why }
func (e Enabled) String() string  { return "enabled" }

func (e Reconfigured) String() string {
	if e.NewGeneration {
		return "reconfigured: a new generation is needed"
	}
	return "reconfigured without a restart"
}

func (e CatalogChanged) String() string {
	return fmt.Sprintf("catalog changed (generation %d): %s", e.Gen, e.Change)
}

func (e ListFailed) String() string {
	return fmt.Sprintf("listing failed (generation %d), the last good catalog stays: %s", e.Gen, e.Cause.Reason())
}

func (e Pinned) String() string {
	return fmt.Sprintf("first seen, and pinned: %s", tools(e.Tools))
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
	return fmt.Sprintf("generation %d would not end in order: %s", e.Gen, e.Cause.Reason())
}

func (e Operated) String() string {
	text := e.Action
	if e.Detail != "" {
		text += " " + e.Detail
	}
	return text + ", by hand (" + e.By + ")"
}

func (e DrillBegan) String() string {
	text := "a drill breaks it on purpose: " + e.Fault
	if e.For > 0 {
		text += " for " + Short(e.For)
	}
	return text
}

func (e DrillEnded) String() string {
	if !e.Recovered {
		return "the drill is over (" + e.Fault + "), and the server does not answer"
	}
	return fmt.Sprintf("the drill is over (%s): the server answered %s after it", e.Fault, Short(e.Took))
}

func (e CallReplayed) String() string {
	return fmt.Sprintf("%s is sent again (failed on generation %d: %s)", callWords(e.Method, e.Name), e.Gen, e.Cause.Reason())
}

func (e ClientRefused) String() string {
	text := fmt.Sprintf("refused %s to %s: %s", e.Method, e.Client, e.Reason)
	if len(e.Policies) > 0 {
		text += " (" + strings.Join(e.Policies, ", ") + ")"
	}
	if e.RetryAfter > 0 {
		text += ", try again in " + Short(e.RetryAfter)
	}
	if e.Count > 1 {
		text += fmt.Sprintf(", %d times", e.Count)
	}
	return text
}

func (e CallFailed) String() string {
	return fmt.Sprintf("%s failed (generation %d, outcome %s): %s", callWords(e.Method, e.Name), e.Gen, outcomeWords(e.Cause), e.Cause.Reason())
}

var reasonWords = map[Reason]string{
	"":      "no reason",
	Budget:  "it has been away for too long for fast attempts",
	Auth:    "a login is needed",
	Config:  "it cannot run as configured",
	Missing: "the command is not there",
	Ended:   "it ended, and is not started again by itself",
}

// String names what changed, list by list.
func (c Change) String() string {
	var parts []string
	for _, l := range c.Lists {
		for _, d := range []struct {
			sign  string
			names []string
		}{{"+", l.Added}, {"-", l.Removed}, {"~", l.Changed}} {
			if len(d.names) > 0 {
				parts = append(parts, l.Kind+" "+d.sign+nameList(d.names))
			}
		}
		if l.Reordered {
			parts = append(parts, l.Kind+" in another order")
		}
	}
	if c.Instructions {
		parts = append(parts, "instructions")
	}
	return strings.Join(parts, "; ")
}

func (h Head) next(when time.Time) string {
	if when.IsZero() {
		return ""
	}
	return ", next attempt in " + Short(when.Sub(h.Time))
}

// Short writes a duration as the texts of events do: rounded for reading.
func Short(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	default:
		return d.Round(time.Millisecond).String()
	}
}

func tools(n int) string {
	if n == 1 {
		return "1 tool"
	}
	return fmt.Sprint(n, " tools")
}

func callWords(method, name string) string { return strings.TrimSpace(method + " " + name) }

func outcomeWords(f *fault.Fault) string { return strings.ReplaceAll(f.Outcome.String(), "_", " ") }

// nameList is a list of names, short enough for a line.
func nameList(names []string) string {
	const most = 8
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
