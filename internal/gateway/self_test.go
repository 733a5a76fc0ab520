package gateway

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/everline/everline/internal/bridge"
	"github.com/everline/everline/internal/mcp"
)

const (
	helloFrom    = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"everline","version":"1"},"_meta":{"everline/instance":"%s"}}}`
	discoverFrom = `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"everline/instance":"%s"}}}`
	refusedLoop  = `"code":-31012,"message":"This everline is a server of itself: remove that server from its configuration","data":{"outcome":"not_sent","kind":"loop"`
)

// E6: the everline that is the endpoint's own is refused, in both eras, over
// each transport, before it has a session; every other one is served.
func TestFaultE6_ServerOfItself(t *testing.T) {
	for _, own := range []bool{true, false} {
		who := map[bool]string{true: "me", false: "another"}[own]
		check := func(t *testing.T, body string) {
			t.Helper()
			if strings.Contains(body, refusedLoop) != own || strings.Contains(body, `"result"`) == own {
				t.Errorf("%s: %s", who, body)
			}
		}
		t.Run("http of "+who, func(t *testing.T) {
			s := serve(t, newHub(), Options{Instance: "me"})
			r := s.do("POST", "/mcp", fmt.Sprintf(helloFrom, who))
			check(t, r.body)
			if (r.header.Get(mcp.HeaderSession) == "") != own {
				t.Errorf("session %q", r.header.Get(mcp.HeaderSession))
			}
			check(t, s.do("POST", "/mcp", fmt.Sprintf(discoverFrom, who), "Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: server/discover").body)
		})
		t.Run("stdio of "+who, func(t *testing.T) {
			c, _ := stdio(t, newHub(), Options{Instance: "me"})
			c.say(fmt.Sprintf(discoverFrom, who))
			check(t, c.next())
			c.say(fmt.Sprintf(helloFrom, who))
			check(t, c.next())
		})
		t.Run("bridge of "+who, func(t *testing.T) {
			url := serve(t, newHub(), Options{Instance: "me"}).url + "/mcp"
			c := talk(t, func(ctx context.Context, in io.Reader, out io.Writer) error {
				return bridge.Run(ctx, in, out, url, http.DefaultTransport)
			})
			c.say(fmt.Sprintf(discoverFrom, who))
			check(t, c.next())
			c.say(fmt.Sprintf(helloFrom, who))
			check(t, c.next())
		})
	}
}

// A gateway that does not know its own name takes nobody for itself.
func TestNoInstance(t *testing.T) {
	s := serve(t, newHub(), Options{})
	if r := s.do("POST", "/mcp", fmt.Sprintf(helloFrom, "")); !strings.Contains(r.body, `"result"`) {
		t.Error(r.body)
	}
}

func TestServeLoop(t *testing.T) {
	in := "\n" + fmt.Sprintf(helloFrom, "x") + "\n" + `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\nwhat?\n" + fmt.Sprintf(discoverFrom, "x")
	var out bytes.Buffer
	if err := ServeLoop(strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	if strings.Count(out.String(), refusedLoop) != 2 || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("%s", out.String())
	}
}
