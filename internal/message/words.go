package message

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// readable answers a tools/call that could not be completed with a result that
// a model can read: what happened, whether the tool was executed, and what to
// do about it.
func (m *Message) readable(f *fault.Fault, v verdict) Answer {
	b := append([]byte(`{"jsonrpc":"2.0","id":`), m.ID...)
	b = append(b, `,"result":{`...)
	if m.Modern {
		b = append(b, `"resultType":"complete",`...)
	}
	b = append(b, `"content":[{"type":"text","text":`...)
	b = wire.AppendString(b, tell(f, v, m.Method))
	b = append(b, `}],"isError":true,"_meta":{"`+mcp.MetaOutcome+`":`...)
	b = append(append(b, Outcome(f)...), "}}}"...)
	return Answer{Head: b}
}

// tell says in plain words what happened, what is known, and what to do.
func tell(f *fault.Fault, v verdict, method string) string {
	var b strings.Builder
	b.WriteString(sentence(strings.ReplaceAll(v.words, "%s", serverName(f)), causeOf(f)))
	for _, s := range []string{lastWords(f), executed(f), advice(f, method)} {
		if s != "" {
			b.WriteByte(' ')
			b.WriteString(s)
		}
	}
	return b.String()
}

func serverName(f *fault.Fault) string {
	if f.Server == "" {
		return "the server"
	}
	return "the server " + strconv.Quote(f.Server)
}

// sentence puts what happened and its cause into one sentence.
func sentence(what, cause string) string {
	s := strings.ToUpper(what[:1]) + what[1:]
	if cause != "" {
		s += ": " + strings.TrimRight(cause, ". \n")
	}
	return s + "."
}

// causeOf is the cause alone, with what the system said of the process or the
// HTTP status; "" if it would only repeat the kind. What went wrong inside
// everline is not for clients.
func causeOf(f *fault.Fault) string {
	if f.Kind == fault.Internal {
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
	if f.Err != nil && !bare(f.Err) {
		add(f.Text())
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

// What of stderr a client is told.
const (
	stderrLines = 3
	stderrWidth = 200
)

func lastWords(f *fault.Fault) string {
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

func executed(f *fault.Fault) string {
	switch f.Outcome {
	case fault.NotSent:
		return "The request was not sent, so nothing was executed."
	case fault.Answered:
		return "The server did answer, so the request may have been executed, but the answer could not be used."
	default:
		return "The request was sent, and whether it was executed is unknown."
	}
}

// advice says what to do next, and when.
func advice(f *fault.Fault, method string) string {
	when := "."
	if f.RetryAfter > 0 {
		when = " in " + f.RetryAfter.Round(100*time.Millisecond).String() + "."
	}
	var s string
	switch {
	case f.Outcome != fault.NotSent && !Repeatable(method):
		s = "Check what happened before sending it again: it may be executed twice."
		if f.RetryAfter > 0 {
			s += " The server may be back" + when
		}
	case f.RetryAfter > 0:
		s = "Send it again" + when
	case needsPerson(f.Kind):
		s = "Sending it again cannot help before someone has fixed this."
	default:
		s = "It is safe to send it again."
	}
	if f.Remedy != "" {
		s += " What a person can do: " + strings.TrimRight(f.Remedy, ". \n") + "."
	}
	return s
}

// needsPerson tells whether waiting alone changes nothing.
func needsPerson(k fault.Kind) bool {
	switch k {
	case fault.Disabled, fault.Missing, fault.Unauthorized, fault.Forbidden, fault.NoVersion, fault.TooLarge:
		return true
	default:
		return false
	}
}

// Repeatable tells whether a request may be sent again whatever became of it.
func Repeatable(method string) bool {
	return method != mcp.ToolsCall && method != mcp.SubscriptionsListen
}
