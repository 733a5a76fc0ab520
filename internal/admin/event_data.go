package admin

import (
	"time"

	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
)

// namesTold is how many names the data of an event has of each list; the counts
// beside them are of all.
const namesTold = 20

type data = map[string]any

// dataOf is what the text of an event says, for programs.
// docs/reference/json.md has the members.
func dataOf(e event.Event) data {
	switch e := e.(type) {
	case event.Connecting:
		return data{"cause": e.Why}
	case event.Connected:
		return data{
			"tookMs": e.Took.Milliseconds(), "afterMs": e.After.Milliseconds(),
			"phases": phasesOf(e.Phases),
			"items":  data{"tools": e.Items.Tools, "prompts": e.Items.Prompts, "resources": e.Items.Resources, "templates": e.Items.Templates},
		}
	case event.StartFailed:
		return failure(e.Cause, data{"next": knownTime(e.Next), "attempt": e.Attempt})
	case event.Lost:
		return failure(e.Cause, data{"next": knownTime(e.Next), "attempt": e.Attempt})
	case event.Stopped:
		d := data{"reason": string(e.Reason), "remedy": e.Remedy, "next": knownTime(e.Next)}
		if e.Cause != nil {
			return failure(e.Cause, d)
		}
		return d
	case event.Ending:
		return data{"why": e.Why}
	case event.Reconfigured:
		return data{"newGeneration": e.NewGeneration}
	case event.CatalogChanged:
		return changes(e.Change)
	case event.ListFailed:
		return failure(e.Cause, data{})
	case event.CloseFailed:
		return failure(e.Cause, data{})
	case event.Pinned:
		return data{"tools": e.Tools}
	case event.Unapproved:
		return data{"changed": told(e.Changed), "new": told(e.New), "instructions": e.Instructions, "withheld": e.Withheld}
	case event.Operated:
		return data{"by": e.By, "action": e.Action, "detail": e.Detail}
	case event.DrillBegan:
		return data{"fault": e.Fault, "forMs": e.For.Milliseconds()}
	case event.DrillEnded:
		return data{"fault": e.Fault, "recovered": e.Recovered, "tookMs": e.Took.Milliseconds()}
	case event.CallReplayed:
		return call(e.Method, e.Name, e.Cause)
	case event.CallFailed:
		return call(e.Method, e.Name, e.Cause)
	case event.ClientRefused:
		return data{"client": e.Client, "policies": told(e.Policies), "reason": e.Reason, "method": e.Method, "retryAfterMs": e.RetryAfter.Milliseconds(), "count": e.Count}
	}
	return data{}
}

// traceOf is the trace of the call that an event is about.
func traceOf(e event.Event) [16]byte {
	switch e := e.(type) {
	case event.CallReplayed:
		return e.Trace
	case event.CallFailed:
		return e.Trace
	default:
		return [16]byte{}
	}
}

// phasesOf are the phases of a start, in ms by name.
func phasesOf(all []event.Phase) data {
	d := data{}
	for _, p := range all {
		d[p.Name] = p.Took.Milliseconds()
	}
	return d
}

func failure(f *fault.Fault, d data) data {
	d["kind"], d["cause"] = f.Kind.String(), f.Reason()
	if f.Exit != "" {
		d["exit"] = f.Exit
	}
	return d
}

func call(method, name string, f *fault.Fault) data {
	return failure(f, data{"method": method, "name": name, "outcome": f.Outcome.String()})
}

func changes(c event.Change) data {
	d := data{"instructions": c.Instructions}
	for _, l := range c.Lists {
		d[l.Kind] = data{
			"added": len(l.Added), "removed": len(l.Removed), "changed": len(l.Changed), "reordered": l.Reordered,
			"names": data{"added": told(l.Added), "removed": told(l.Removed), "changed": told(l.Changed)},
		}
	}
	return d
}

func told(names []string) []string {
	return append([]string{}, names[:min(len(names), namesTold)]...)
}

// hideData returns data without secrets. It does not change d, which the journal
// keeps.
func hideData(d data, hide func(string) string) data {
	clean := make(data, len(d))
	for key, v := range d {
		switch v := v.(type) {
		case string:
			clean[key] = hide(v)
		case []string:
			clean[key] = hideAll(v, hide)
		case data:
			clean[key] = hideData(v, hide)
		case *time.Time, bool, int, int64:
			clean[key] = v
		}
	}
	return clean
}
