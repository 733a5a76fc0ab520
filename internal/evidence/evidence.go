// Package evidence says what a failure counts against: the request that failed,
// the session, the login, or the link. It does not decide what follows; that
// is the lifecycle's. Its one table is all of that decision, for transports,
// upstreams and slots alike.
package evidence

import (
	"slices"

	"github.com/everline/everline/fault"
)

// Source is where a failure was met.
type Source uint8

const (
	Call    Source = iota // a request that somebody made
	List                  // a listing of our own on a generation that serves
	Message               // a notification, or an answer of ours: nobody waits for what comes back
	Probe                 // a request of our own that is to find out how the server is
	Start                 // the connection, the handshake and the first listing
	Link                  // the link itself: it has ended
)

// Against is what a failure counts against.
type Against uint8

const (
	// Request: nothing but the request itself.
	Request Against = iota
	// Doubt: the request, and perhaps the link. A probe decides: only where the
	// server refuses that as well it is a strike.
	Doubt
	// Strike: the link, once. The lifecycle counts, and replaces the generation.
	Strike
	// Session: the session is gone, and the generation with it. What is out on
	// it may still be answered.
	Session
	// LoginDoubt: the request, and perhaps the credentials. A probe decides.
	LoginDoubt
	// Login: the server lets nobody in without another login.
	Login
	// Generation: it is over.
	Generation
)

// A Row is one line of the table.
type Row struct {
	Seen    string // for people: the documentation holds this table
	From    []Source
	Kinds   []fault.Kind // nil: all
	Against Against
	Follows string // for people, too
}

// link are failures that the link may explain, and the request as well.
var link = []fault.Kind{fault.Dial, fault.Broken, fault.Exited, fault.Wedged, fault.HTTPStatus}

// NoToken is the row above all others: of a request that was not sent, because
// what it is to show cannot be had for now.
var NoToken = Row{
	"no token can be had for now: its issuer is away, or a refresh takes longer than the request may",
	[]Source{Call, List, Message, Probe, Start},
	[]fault.Kind{fault.Unavailable, fault.Deadline, fault.Canceled},
	Request,
	"nothing: the server was not asked. A start of that kind is no attempt, and follows when there may be a token",
}

// Tokenless tells whether a failure is of NoToken.
func Tokenless(f *fault.Fault) bool {
	return f.Op == fault.OpAuthorize && slices.Contains(NoToken.Kinds, f.Kind)
}

// Table is the rest of the decision. The first row that fits counts; what no row
// speaks of counts against the request alone. A failure with the outcome
// answered came over a good link and fits no row but those of sessions and
// logins.
var Table = [...]Row{
	{
		"whatever the server says to a notification, or to our answer to a request of its own",
		[]Source{Message},
		nil, Request,
		"nothing: servers that accept no such message are in use; the next request tells",
	},
	{
		"the server does not know the session: HTTP 404 to its id, or a probe has shown it",
		[]Source{Call, List, Probe, Link},
		[]fault.Kind{fault.SessionLost},
		Session,
		"a new session at once, one for all calls; what is out on the old one may finish",
	},
	{
		"HTTP 401 with a challenge to a call or a later listing",
		[]Source{Call, List},
		[]fault.Kind{fault.Unauthorized},
		LoginDoubt,
		"this request is refused; a probe, at most one in 30 s, decides about the others",
	},
	{
		"HTTP 401 with a challenge to a probe or to the handshake",
		[]Source{Probe, Start, Link},
		[]fault.Kind{fault.Unauthorized},
		Login,
		"`auth_required`; calls that are out may finish",
	},
	{
		"no connection, a reset, a cut stream, an HTTP status such as 500 or 502, an answer that cannot be read or has the wrong content type, to a call",
		[]Source{Call},
		append(slices.Clone(link), fault.Protocol), Doubt,
		"this call fails; a probe decides, and only one that fails as well makes it a strike",
	},
	{
		"the same to a probe, or no answer to it in 10 s",
		[]Source{Probe},
		append(slices.Clone(link), fault.Protocol, fault.SessionSuspect, fault.Deadline, fault.Internal), Strike,
		"a strike for each call that is in doubt; three in a row replace the connection, and calls that are out may finish",
	},
	{
		"the same to a later listing, or no answer to it while no call is out; not one that cannot be read",
		[]Source{List},
		append(slices.Clone(link), fault.Deadline), Strike,
		"a strike of listings, likewise; the last good catalog stays",
	},
	{
		"the process has ended, its output or the event stream of HTTP+SSE has, it does not read, three pings in a row were not answered while calls waited",
		[]Source{Link},
		nil, Generation,
		"the connection is over, and what was out on it with it",
	},
	{
		"any other failure of a start",
		[]Source{Start},
		nil, Generation,
		"the start is a loss",
	},
	{
		"everything else: an error that the server itself answered, an unreadable listing, a deadline, a client's cancel, 403, 429, an answer over the limit",
		[]Source{Call, List, Probe},
		nil, Request,
		"nothing beyond the request",
	},
}

// Of says what f, which was met at src, counts against.
func Of(src Source, f *fault.Fault) Against {
	if Tokenless(f) {
		return NoToken.Against
	}
	for i := range Table {
		r := &Table[i]
		if slices.Contains(r.From, src) && (r.Kinds == nil || slices.Contains(r.Kinds, f.Kind)) {
			if answered := f.Outcome == fault.Answered; answered && (r.Against == Doubt || r.Against == Strike) {
				return Request
			}
			return r.Against
		}
	}
	return Request
}

var names = [...]string{"the request", "the request; perhaps the link", "the link", "the session", "the request; perhaps the login", "the login", "the connection"}

// String names it for people.
func (a Against) String() string { return names[a] }
