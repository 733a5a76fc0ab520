package event

import (
	"fmt"
	"testing"
	"time"

	"github.com/everline/everline/fault"
)

func TestEventText(t *testing.T) {
	h := Head{Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Server: "db", Gen: 3}
	exit := &fault.Fault{Kind: fault.Exited, Exit: "exit 1", Err: fmt.Errorf("exit 1")}
	many := make([]string, 12)
	for i := range many {
		many[i] = fmt.Sprint("t", i)
	}
	for _, c := range []struct {
		e    Event
		want string
	}{
		{Connecting{Head: h}, "connecting (generation 3)"},
		{Connected{Head: h, Took: 412 * time.Millisecond, After: 61 * time.Second, Items: Counts{Tools: 7}}, "connected (generation 3) in 412ms, 7 tools, 1m1s after the link was lost"},
		{Connected{Head: h, Took: time.Second, Items: Counts{Tools: 1}}, "connected (generation 3) in 1s, 1 tool"},
		{StartFailed{Head: h, Cause: exit, Next: h.Time.Add(1500 * time.Millisecond)}, "start failed (generation 3): exit 1, next attempt in 1.5s"},
		{Lost{Head: h, Cause: exit}, "lost (generation 3): exit 1"},
		{Stopped{Head: h, Reason: Auth, Remedy: "run: everline auth login db"}, "stopped: a login is needed; run: everline auth login db"},
		{Stopped{Head: h, Reason: Budget, Cause: exit, Next: h.Time.Add(200 * time.Second)}, "stopped: it has been away for too long for fast attempts: exit 1, next attempt in 3m20s"},
		{Idled{h}, "stopped after idling (generation 3)"},
		{Disabled{h}, "disabled"},
		{Ending{h, "everline shuts down"}, "ending: everline shuts down"},
		{Enabled{h}, "enabled"},
		{Reconfigured{Head: h, NewGeneration: true}, "reconfigured: a new generation is needed"},
		{Reconfigured{Head: h}, "reconfigured without a restart"},
		{ListFailed{h, exit}, "listing failed (generation 3), the last good catalog stays: exit 1"},
		{CloseFailed{h, exit}, "generation 3 would not end in order: exit 1"},
		{CallReplayed{Head: h, Method: "tools/call", Name: "q", Cause: exit}, "tools/call q is sent again (failed on generation 3: exit 1)"},
		{
			ClientRefused{h, "token:ab", []string{"read", "write"}, "rate", "tools/call", 1500 * time.Millisecond, 3},
			"refused tools/call to token:ab: rate (read, write), try again in 1.5s, 3 times",
		},
		{ClientRefused{h, "uid:7", nil, "nothing_granted", "initialize", 0, 1}, "refused initialize to uid:7: nothing_granted"},
		{CallFailed{Head: h, Method: "resources/list", Cause: exit}, "resources/list failed (generation 3, outcome unknown): exit 1"},
		{
			CatalogChanged{h, Change{Lists: []ListChange{{Kind: "tools", Added: many, Removed: []string{"x"}}, {Kind: "resources", Removed: []string{"y"}}}, Instructions: true}},
			"catalog changed (generation 3): tools +t0, t1, t2, t3, t4, t5, t6, t7 and 4 more; tools -x; resources -y; instructions",
		},
	} {
		if got := c.e.String(); got != c.want {
			t.Errorf("%T: %q, want %q", c.e, got, c.want)
		}
		if c.e.About() != h {
			t.Errorf("%T is about %+v", c.e, c.e.About())
		}
	}
}
