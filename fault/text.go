package fault

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// what is what happened, by kind; %s is the server.
var what = [...]string{
	Internal:       "everline failed on this request",
	Canceled:       "the request was canceled",
	Deadline:       "%s did not answer in time",
	Unavailable:    "%s is not available now",
	Disabled:       "%s is disabled",
	Overloaded:     "too many requests wait for %s already",
	NotFound:       "not found",
	Invalid:        "the request is invalid",
	Missing:        "%s cannot be started, because its command was not found",
	Spawn:          "%s could not be started",
	Dial:           "%s could not be reached",
	Broken:         "the connection to %s was lost",
	Exited:         "the process of %s ended",
	Wedged:         "%s stopped responding",
	SessionLost:    "%s has forgotten everline's session",
	SessionSuspect: "%s may have forgotten everline's session",
	Unauthorized:   "%s needs a login",
	Forbidden:      "%s does not allow this",
	RateLimited:    "%s takes no more requests for now",
	HTTPStatus:     "%s answered with an HTTP error",
	Protocol:       "%s broke the protocol",
	TooLarge:       "a message was larger than allowed for %s",
	NoVersion:      "%s speaks no protocol version that everline knows",
	Unsupported:    "%s does not offer this",
	RPC:            "%s answered with an error",
	Conflict:       "%s is not in a state for this",
	Closed:         "everline is shutting down",
}

// Text says in plain words, for people and models, what happened, whether the
// request was executed, and what to do about it: what clients of the endpoint
// read.
func (f *Fault) Text() string {
	switch f.Kind {
	case NotFound, Invalid, Conflict, Unsupported, RPC: // what was asked for is why, and not how it went
		happened := sentence(f.what(), f.Detail())
		if !isRequest(f.Op) && f.Detail() != "" {
			happened = strings.TrimRight(f.Detail(), ". \n") + "."
		}
		return join(happened, f.remedy())
	default:
	}
	if !isRequest(f.Op) {
		return join(sentence(f.what(), f.Detail()), f.lastWords(), f.remedy())
	}
	return f.TextAs("", f.Op != "tools/call")
}

// TextAs is Text for a request whose method is known: repeatable tells that it
// may be sent again whatever became of it. happened says what happened, %s being
// the server; "" for what the kind says.
func (f *Fault) TextAs(happened string, repeatable bool) string {
	if happened == "" {
		happened = f.what()
	} else {
		happened = strings.ReplaceAll(happened, "%s", f.server())
	}
	return join(sentence(happened, f.Detail()), f.lastWords(), f.executed(), f.advice(repeatable), f.remedy())
}

// isRequest tells whether an operation is a request to a server: they are
// called after their methods.
func isRequest(op string) bool {
	return op == "call" || op == "ping" || strings.Contains(op, "/") && !strings.Contains(op, " ")
}

func (f *Fault) what() string {
	switch {
	case f.Kind == Closed && f.Server != "":
		return "the connection to " + f.server() + " was closed"
	case int(f.Kind) >= len(what):
		return what[Internal]
	default:
		return strings.ReplaceAll(what[f.Kind], "%s", f.server())
	}
}

func (f *Fault) server() string {
	if f.Server == "" {
		return "the server"
	}
	return "the server " + strconv.Quote(f.Server)
}

func join(sentences ...string) string {
	var b strings.Builder
	for _, s := range sentences {
		if s != "" && b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(s)
	}
	return b.String()
}

// sentence puts what happened and its cause into one sentence.
func sentence(happened, cause string) string {
	s := strings.ToUpper(happened[:1]) + happened[1:]
	if cause != "" {
		s += ": " + strings.TrimRight(cause, ". \n")
	}
	return s + "."
}

// Detail is the cause alone, with what the system said of the process or the
// HTTP status; "" if it would only repeat the kind. What went wrong inside
// everline is left out.
func (f *Fault) Detail() string {
	if f.Kind == Internal {
		return ""
	}
	text := ""
	add := func(part string) {
		switch {
		case part == "" || strings.Contains(text, part):
		case text == "":
			text = part
		default:
			text += ", " + part
		}
	}
	if f.Err != nil && !bare(f.Err) || f.RPC != nil {
		add(f.Reason())
	}
	add(f.Exit)
	if f.Status != 0 {
		add("HTTP status " + strconv.Itoa(f.Status))
	}
	return text
}

// bare tells whether err is one of the two errors of contexts themselves, with
// nothing around it: they say no more than the kind.
func bare(err error) bool {
	return err == context.DeadlineExceeded || err == context.Canceled //nolint:errorlint // nothing around it
}

// What of stderr is shown.
const (
	stderrLines = 3
	stderrWidth = 200
)

func (f *Fault) lastWords() string {
	if len(f.Stderr) == 0 {
		return ""
	}
	lines := f.Stderr[max(0, len(f.Stderr)-stderrLines):]
	quoted := make([]string, len(lines))
	for i, l := range lines {
		quoted[i] = strconv.Quote(strings.ToValidUTF8(l[:min(len(l), stderrWidth)], ""))
	}
	return "The last it wrote to stderr: " + strings.Join(quoted, ", ") + "."
}

func (f *Fault) executed() string {
	switch f.Outcome {
	case NotSent:
		return "The request was not sent, so nothing was executed."
	case Answered:
		return "The server did answer, so the request may have been executed, but the answer could not be used."
	default:
		return "The request was sent, and whether it was executed is unknown."
	}
}

// advice says what to do next, and when.
func (f *Fault) advice(repeatable bool) string {
	when := "."
	if f.RetryAfter > 0 {
		when = " in " + f.RetryAfter.Round(100*time.Millisecond).String() + "."
	}
	switch {
	case f.Outcome != NotSent && !repeatable && f.RetryAfter > 0:
		return "Check what happened before sending it again: it may be executed twice. The server may be back" + when
	case f.Outcome != NotSent && !repeatable:
		return "Check what happened before sending it again: it may be executed twice."
	case f.RetryAfter > 0:
		return "Send it again" + when
	case f.Kind.needsPerson():
		return "Sending it again cannot help before someone has fixed this."
	default:
		return "It is safe to send it again."
	}
}

func (f *Fault) remedy() string {
	if f.Remedy == "" {
		return ""
	}
	return "What a person can do: " + strings.TrimRight(f.Remedy, ". \n") + "."
}

// needsPerson tells whether waiting alone changes nothing.
func (k Kind) needsPerson() bool {
	switch k {
	case Disabled, Missing, Unauthorized, Forbidden, NoVersion, TooLarge:
		return true
	default:
		return false
	}
}
