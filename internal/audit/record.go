// Package audit keeps the record of who did what through everline: lines of JSON in
// files, each of which holds the hash of the line before, so that it shows when one
// was changed or taken out. It decides nothing, and knows neither servers nor
// clients.
package audit

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/everline/everline/internal/conf/redact"
	"github.com/everline/everline/internal/visible"
)

// Version is that of the form of a Record. Members may be added to it; what a member
// means does not change.
const Version = 1

// Types of records.
const (
	TypeCall    = "call"    // a request to a server
	TypeRefusal = "refusal" // a request that was refused before any server was meant
	TypeAdmin   = "admin"   // something that somebody did to everline
	TypeConfig  = "config"  // another configuration applies, or was refused
	TypeAuth    = "auth"    // a login or logout
	TypeSession = "session" // a client came or went
	TypeSystem  = "system"  // everline itself, and the record itself
)

// Types are all of them.
var Types = []string{TypeCall, TypeRefusal, TypeAdmin, TypeConfig, TypeAuth, TypeSession, TypeSystem}

// Outcomes of what is no call; those of calls are the words of event.CallResult.
const (
	OK      = "ok"
	Failed  = "failed"
	Refused = "refused"
)

// Actions of TypeSystem.
const (
	Start  = "start"
	Stop   = "stop"
	Lost   = "audit_lost" // Count records could not be written
	Torn   = "torn"       // the line before has no end: everline or the machine was ended while it was written
	Pruned = "pruned"     // the oldest files were deleted, as the bounds say; Change.Was is the hash of their last line
)

// A Record is one line. What does not apply is left out.
type Record struct {
	V       int       `json:"v"`                  // Version
	ID      string    `json:"id"`                 // the run of everline, and the number of the record in it, from 1 without a gap
	Time    time.Time `json:"time"`               // when it ended
	Type    string    `json:"type"`               // see Types
	Action  string    `json:"action"`             // the method of a call; else what was done
	Outcome string    `json:"outcome"`            // ok, failed or refused; of a call what became of it
	Actor   Actor     `json:"actor"`              // who did it
	Target  *Target   `json:"target,omitempty"`   // to what
	Request *Request  `json:"request,omitempty"`  // of a call
	Result  *Result   `json:"result,omitempty"`   // of a call
	Change  *Change   `json:"change,omitempty"`   // what is different since
	Took    *float64  `json:"tookMs,omitempty"`   // from when the call came until its end
	Waited  *float64  `json:"waitedMs,omitempty"` // of that, for a generation, a turn or the end of a pause
	Sends   int       `json:"sends,omitempty"`    // how often the call was sent
	Saved   string    `json:"saved,omitempty"`    // replay or parking: the call was answered, and had failed without everline
	Policy  string    `json:"policy,omitempty"`   // that decided: the one that allows a request, or those that do not, joined by "+"; where policies are configured
	Rule    string    `json:"rule,omitempty"`     // of that policy, as it stands there; of a refusal what it was for
	Kind    string    `json:"kind,omitempty"`     // of the fault, where it failed or was refused
	Cause   string    `json:"cause,omitempty"`    // why, in words
	Count   uint64    `json:"count,omitempty"`    // of lost records; of refusals that were alike, where there was more than one
	TraceID string    `json:"traceId,omitempty"`  // of the trace that the call is part of
	Prev    string    `json:"prev,omitempty"`     // "sha256:" and the hash of the line before, without its end; absent where audit.chain is false
}

// An Actor is who did something, as far as is known.
type Actor struct {
	Kind    string `json:"kind"`              // client, cli, web, server (a process that everline has started) or system (everline itself)
	ID      uint64 `json:"id,omitempty"`      // of a client within the run
	Name    string `json:"name,omitempty"`    // what the client calls itself
	Version string `json:"version,omitempty"` // likewise
	Session string `json:"session,omitempty"` // 16 hexadecimal digits of the hash of the session's id
	Subject string `json:"subject,omitempty"` // the identity that was proven
	Addr    string `json:"addr,omitempty"`    // of the connection's other end
	UID     *int   `json:"uid,omitempty"`     // of the process at the other end
	PID     int    `json:"pid,omitempty"`     // likewise
}

// Kinds of actors.
const (
	Client = "client"
	CLI    = "cli"
	Web    = "web"
	Server = "server"
	System = "system"
)

// A Target is what something was done to.
type Target struct {
	Server      string   `json:"server,omitempty"`
	Generations []uint64 `json:"generations,omitempty"` // that the call was sent to: the first, and the last where that is another
	Tool        string   `json:"tool,omitempty"`        // the server's own name of the tool or prompt
	URI         string   `json:"uri,omitempty"`         // of a resource, without its secrets
	Exposed     string   `json:"exposed,omitempty"`     // the name that the client used
	Definition  string   `json:"definition,omitempty"`  // "sha256:" and the hash of the tool's definition, as pins have it
	Path        string   `json:"path,omitempty"`        // of a request that was refused; of a file that is trusted
	Token       string   `json:"token,omitempty"`       // the name of a client's token
	Identity    string   `json:"identity,omitempty"`    // whose token it is: the subject of its holder
}

// A Request is what a client sent.
type Request struct {
	ID        string   `json:"id,omitempty"`        // the client's, as JSON
	Bytes     int      `json:"bytes"`               // of the params
	Names     []string `json:"names,omitempty"`     // of the arguments at the top; with audit.arguments "names"
	SHA256    string   `json:"sha256,omitempty"`    // HMAC-SHA-256 of the arguments as they came; with "hash"
	Arguments string   `json:"arguments,omitempty"` // as JSON, secrets masked, cut; with "full"
}

// A Result is what a server answered.
type Result struct {
	Bytes   int   `json:"bytes"`
	IsError bool  `json:"isError"`
	Code    int64 `json:"code,omitempty"` // of the JSON-RPC error that the server answered with
}

// A Change is what is different since something was done.
type Change struct {
	Was       string   `json:"was,omitempty"` // "sha256:" and a hash
	Now       string   `json:"now,omitempty"`
	Added     []string `json:"added,omitempty"` // servers
	Removed   []string `json:"removed,omitempty"`
	Restarted []string `json:"restarted,omitempty"`
	Adjusted  []string `json:"adjusted,omitempty"`
	Files     []string `json:"files,omitempty"` // that were deleted
}

type actorKey struct{}

// With is ctx for something that an actor does.
func With(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// From is the actor that With has put into ctx, else everline itself.
func From(ctx context.Context) Actor {
	if a, ok := ctx.Value(actorKey{}).(Actor); ok {
		return a
	}
	return Actor{Kind: System}
}

const (
	maxText  = 256 // bytes of a name that somebody else has chosen
	maxCause = 1024
	maxNames = 64 // arguments whose names are recorded
)

// clean makes what others have written safe to be kept and shown: secrets are
// hidden, what does not show is written out, and it has an end.
func (r *Record) clean(hide func(string) string) {
	short := func(limit int, texts ...*string) {
		for _, t := range texts {
			*t = cut(visible.Text(hide(*t)), limit)
		}
	}
	short(maxText, &r.Action, &r.Actor.Name, &r.Actor.Version, &r.Actor.Subject, &r.Actor.Addr)
	short(maxText, &r.Policy, &r.Rule)
	short(maxCause, &r.Cause)
	if t := r.Target; t != nil {
		short(maxText, &t.Server, &t.Tool, &t.Exposed, &t.Path, &t.Token, &t.Identity)
		t.URI = redact.URL(t.URI)
		short(maxCause, &t.URI)
	}
	if q := r.Request; q != nil {
		short(maxText, &q.ID)
		short(maxArguments, &q.Arguments)
		q.Names = q.Names[:min(len(q.Names), maxNames)]
		for i := range q.Names {
			short(maxText/4, &q.Names[i])
		}
	}
}

// cut shortens a text to a number of bytes, at the end of a character.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "…"
}
