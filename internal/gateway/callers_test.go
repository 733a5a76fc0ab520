package gateway

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/access"
	words "github.com/everline/everline/internal/mcp"
)

// A call says who made it: in each era, and after a restart of everline as well.
func TestCallsSayWhoMadeThem(t *testing.T) {
	l := &lasting{t: t, dir: t.TempDir()}
	h, by := newHub(), ""
	h.onCall = func(_ context.Context, c *everline.Call) ([]byte, error) {
		by = fmt.Sprintf("%+v", *c.By)
		return []byte(`{"content":[]}`), nil
	}
	called := func(s *site, body string, header ...string) string {
		t.Helper()
		by = ""
		want(t, s.post(body, header...), 200)
		return by
	}
	s := l.start(h)
	id := s.initialize("2025-06-18")
	older := "{Name:t Version:1 Protocol:2025-06-18 Subject:" + access.Local().Subject() + "}"
	if got := called(s, call("1", "echo", ""), id); got != older {
		t.Errorf("a session: %s", got)
	}
	headers := []string{"MCP-Protocol-Version: " + words.ModernVersion, "Mcp-Method: tools/call", "Mcp-Name: echo"}
	modern := func(name string) string {
		return strings.Replace(modernBody("1", words.ToolsCall, `,"name":"echo"`), `"_meta":{`, `"_meta":{"`+words.MetaClientInfo+`":{"name":"`+name+`","version":"2"},`, 1)
	}
	for _, name := range []string{"one", "two", "two", "one"} {
		if got := called(s, modern(name), headers...); got != "{Name:"+name+" Version:2 Protocol:"+words.ModernVersion+" Subject:"+access.Local().Subject()+"}" {
			t.Errorf("a request of %s: %s", name, got)
		}
	}
	if got := called(s, modernBody("9", words.ToolsCall, `,"name":"echo"`), headers...); !strings.HasPrefix(got, "{Name: Version: ") {
		t.Errorf("one that does not say: %s", got)
	}
	s = l.start(h)
	if got := called(s, call("2", "echo", ""), id); got != older {
		t.Errorf("a session that outlived everline: %s", got)
	}
}
