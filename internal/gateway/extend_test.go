package gateway

import (
	"fmt"
	"strings"
	"testing"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/mcptest"
)

// A method that no revision defines reaches the server that it is for, and
// params, result and error are what they were.
func TestExtensionMethods(t *testing.T) {
	const params, result = `"b":1e2,"a":{"name":"x","Name":"y"},"n":12345678901234567890`, `{"z":1.50,"a":[],"z2":"\u00e9"}`
	serverOf := func(name string, era mcptest.Era) (*mcptest.Server, config.Server) {
		s := mcptest.New(mcptest.Config{Era: era})
		s.On("vendor/do", func(*mcptest.Request) *mcptest.Reply { return &mcptest.Reply{Result: result} })
		s.On("vendor/no", func(*mcptest.Request) *mcptest.Reply {
			return &mcptest.Reply{Error: `{"code":-31999,"message":"no","data":{"why":7}}`}
		})
		cfg := config.NewServer(name)
		cfg.Transport, cfg.URL = "http", mcptest.Web(t, s).URL+"/mcp"
		return s, cfg
	}
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		t.Run(fmt.Sprint(era), func(t *testing.T) {
			s, cfg := serverOf("one", era)
			other, second := serverOf("two", era)
			alone, both := wholeOf(t, cfg), wholeOf(t, cfg, second)
			id := alone.initialize("2025-11-25")
			legacy := func(at *site, session, method, meta string) reply {
				return at.post(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+meta+params+`}}`, session)
			}
			want(t, legacy(alone, id, "vendor/do", ""), 200, `"result":{"z":1.50`, `"z2":"\u00e9"`)
			want(t, legacy(alone, id, "vendor/no", ""), 200, `"error":{"code":-31999,"message":"no","data":{"why":7}}`)
			want(t, legacy(alone, id, "vendor/none", ""), 200, `-32601`)
			want(t, alone.modern("1", "vendor/do", "", ","+params), 200, `"z":1.50`)
			want(t, alone.modern("1", "vendor/none", "", ","+params), 404, `-32601`)
			if got := string(s.Requests("vendor/do")[0].Params); !strings.Contains(got, params) {
				t.Errorf("the server got %s", got)
			}
			s.Next("vendor/do", 1, mcptest.Reply{Status: 400, Body: "no"})
			// Who knows whether it may be sent again?
			want(t, legacy(alone, id, "vendor/do", ""), 200, `"error"`, "HTTP 400", "it may be executed twice", `"outcome":"unknown"`)
			id = both.initialize("2025-11-25")
			want(t, legacy(both, id, "vendor/do", ""), 200, `-32601`)
			want(t, both.modern("1", "vendor/do", "", ""), 404, `-32601`)
			want(t, legacy(both, id, "vendor/do", `"_meta":{"everline/server":"two"},`), 200, `"z":1.50`)
			want(t, legacy(both, id, "vendor/do", `"_meta":{"everline/server":"three"},`), 200, `"error"`, "three")
			want(t, legacy(both, id, "tools/such", `"_meta":{"everline/server":"two"},`), 200, `-32601`)
			if n := other.Count("vendor/do"); n != 1 || other.Count("tools/such") != 0 {
				t.Errorf("the second server was asked %d times, %d times for tools/such", n, other.Count("tools/such"))
			}
		})
	}
}
