package slot

import (
	"slices"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/mcp"
)

// An action is what follows a failed send.
type action uint8

const (
	giveUp         action = iota
	nextGeneration        // send again on a newer generation, or on this one if its link stands
	afterPause            // send again when the server's pause is over
	ifHarmless            // as nextGeneration, if repeating the call is harmless
)

// A rule is one row of the table that decides about failed sends: what was
// seen, what that proves, and what follows.
type rule struct {
	evidence string // for people: the documentation holds this table
	kinds    []fault.Kind
	outcome  fault.Outcome // what the transport could prove
	then     action
	most     int // sends again of one call because of this row
}

const (
	maxSends    = 6 // of one call, while there is proof that the earlier ones were not executed
	maxUnknown  = 2 // sends again whose earlier outcome is unknown
	maxSessions = 3 // sends again because the server forgot the session
)

// linkKinds are failures of the link or of what is behind it, which another
// generation or another moment can repair.
var linkKinds = []fault.Kind{
	fault.Dial, fault.Broken, fault.Exited, fault.Wedged, fault.HTTPStatus, fault.Protocol, fault.Closed,
}

// rules is the whole table. What no row speaks of is not sent again.
var rules = [...]rule{
	{"the server answered, with a result or an error", nil, fault.Answered, giveUp, 0},
	{"the deadline passed, or the client gave up, before it was sent", []fault.Kind{fault.Deadline, fault.Canceled}, fault.NotSent, giveUp, 0},
	{"the deadline passed, or the client gave up, after it was sent", []fault.Kind{fault.Deadline, fault.Canceled}, fault.Unknown, giveUp, 0},
	{"no connection, or the link was gone before the whole request was written", linkKinds, fault.NotSent, nextGeneration, maxSends - 1},
	{"the server does not know the session", []fault.Kind{fault.SessionLost}, fault.NotSent, nextGeneration, maxSessions},
	{"a rate limit: 429, or 503 with Retry-After", []fault.Kind{fault.RateLimited}, fault.NotSent, afterPause, maxSends - 1},
	{"a login is needed: 401 with a challenge", []fault.Kind{fault.Unauthorized}, fault.NotSent, giveUp, 0},
	{
		"sent, then the link broke: the process died, reset, 502 to 504, a stream cut, a hung server ended",
		append(slices.Clone(linkKinds), fault.SessionLost, fault.RateLimited), fault.Unknown, ifHarmless, maxUnknown,
	},
}

// ruleOf finds the row for a failure; -1 if there is none.
func ruleOf(f *fault.Fault) int {
	for i := range rules {
		r := &rules[i]
		if r.outcome == f.Outcome && (r.kinds == nil || slices.Contains(r.kinds, f.Kind)) {
			return i
		}
	}
	return -1
}

// harmless is Harmless where what a tool claims about itself is read from the
// catalog of the generation that was bound to the call: another generation may be
// another version of the server.
func harmless(method, name string, replay config.Replay, cat *catalog.Catalog) bool {
	return Harmless(method, replay, hintsOf(name, cat))
}

// Harmless tells whether a call may be repeated that may have been executed.
func Harmless(method string, replay config.Replay, hints catalog.Hints) bool {
	switch replay {
	case config.ReplayNever:
		return false
	case config.ReplayAlways:
		return true
	case config.ReplaySafe:
	}
	switch method {
	case mcp.PromptsGet, mcp.ResourcesRead, mcp.CompletionComplete, mcp.Ping, mcp.ServerDiscover, mcp.ToolsList,
		mcp.TasksGet, mcp.TasksList, mcp.TasksResult, mcp.TasksCancel:
		return true
	case mcp.ToolsCall:
		return hints.ReadOnly || hints.Idempotent
	default:
		return false
	}
}

// hintsOf are a tool's claims; none for one that is not in the catalog.
func hintsOf(name string, cat *catalog.Catalog) catalog.Hints {
	if cat == nil {
		return catalog.Hints{}
	}
	items := cat.Items[catalog.Tools]
	if i := slices.IndexFunc(items, func(t catalog.Item) bool { return t.Name == name }); i >= 0 {
		return items[i].Hints
	}
	return catalog.Hints{}
}

// attempts are what one call has been through.
type attempts struct {
	method, name string
	replay       config.Replay
	after        uint64           // only a newer generation helps
	bound        *catalog.Catalog // of the generation that the call was last bound to
	sends        int
	sent         int        // sends that were begun
	gen          uint64     // that it was sent to last; 0 if to none
	first        uint64     // that it was sent to first
	failure      fault.Kind // of the last send, where another follows
	firstFailed  fault.Kind // of the first send, where another follows
	began, ended time.Time  // when the call came, and when its last send was over
	upstream     time.Duration
	last         try // the last send that is over, where something is recorded
	waitSum
	used    [len(rules)]int // failures, by the row that decided about them
	limited int             // sends that met a rate limit
	unknown *fault.Fault    // the newest failure whose outcome is unknown; nil if there is none
}

// bind notes the generation that the call is to be sent to next. It is false if
// the call may have been executed and this generation does not call repeating
// it harmless: it may be another version of the server than the one before.
func (t *attempts) bind(g *generation) bool {
	t.bound = g.known.Load()
	return t.unknown == nil || t.harmless()
}

func (t *attempts) harmless() bool { return harmless(t.method, t.name, t.replay, t.bound) }

// judge decides by the evidence alone, and counts the failure.
func (t *attempts) judge(f *fault.Fault) action {
	t.sends++
	if f.Outcome == fault.Unknown {
		t.unknown = f
	}
	i := ruleOf(f)
	if i < 0 {
		return giveUp
	}
	t.used[i]++
	then := rules[i].then
	switch {
	case t.sends >= maxSends || t.used[i] > rules[i].most:
		return giveUp
	case then == afterPause:
		t.limited++
	case then == ifHarmless && t.harmless():
		return nextGeneration
	case then == ifHarmless:
		return giveUp
	}
	return then
}

// total gives a fault the outcome of all sends: if one of them is unknown, so
// is the call.
func (t *attempts) total(err error) *fault.Fault {
	f := fault.From("call", err)
	if t.unknown != nil && f.Outcome == fault.NotSent {
		c := *f
		c.Outcome = fault.Unknown
		return &c
	}
	return f
}
