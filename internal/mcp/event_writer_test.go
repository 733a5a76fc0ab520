package mcp

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// What is written here is what the reader makes of it.
func TestEventsAreReadAsWritten(t *testing.T) {
	b := AppendRetry(AppendEventID([]byte(KeepAlive), "p-0"), 1500*time.Millisecond)
	b = AppendOtherEvent(b, "", "")
	b = AppendEvent(AppendEventID(b, []byte("p-1")), []byte("{\n \"a\": \"b c\"\r\n}"))
	b = AppendOtherEvent(b, "endpoint", "/messages?x=1")
	b = AppendEvent(append(b, KeepAlive...), []byte(`{}`))
	got := eventTranscript(strings.NewReader(string(b)), 100)
	want := []string{`message|{"a":"b c"}|p-1`, "endpoint|/messages?x=1|p-1", "message|{}|p-1", "end EOF id=p-1 retry=1.5s"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if last := LastMessage(b); string(last) != "{}" {
		t.Errorf("last is %q", last)
	}
}
