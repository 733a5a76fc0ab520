package upstream

import (
	"strings"
	"testing"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/mcptest"
)

// E6: the handshake says which everline asks. One that refuses itself is a
// matter of the configuration; the same code with another meaning is not.
func TestFaultE6_ServerOfItself(t *testing.T) {
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		for data, kind := range map[string]fault.Kind{`{"kind":"loop"}`: fault.Invalid, `{"kind":"knot"}`: fault.RPC} {
			s := mcptest.New(mcptest.Config{Era: era})
			told := ""
			refuse := func(r *mcptest.Request) *mcptest.Reply {
				if strings.Contains(string(r.Params), `"_meta":{`) && strings.Contains(string(r.Params), `"everline/instance":"`+mcp.Instance()+`"`) {
					told += r.Method + " "
				}
				if era == mcptest.Legacy && r.Method == mcp.ServerDiscover {
					return nil
				}
				return &mcptest.Reply{Error: `{"code":-31012,"message":"no","data":` + data + `}`}
			}
			s.On(mcp.ServerDiscover, refuse)
			s.On(mcp.Initialize, refuse)
			opts, _ := options(overWeb(t, s))
			_, err := Start(t.Context(), opts)
			f := faultOf(t, err)
			if f.Kind != kind || (f.Remedy == "remove the server test from the configuration") != (kind == fault.Invalid) {
				t.Errorf("%v %s: %v, %q", era, data, f, f.Remedy)
			}
			if !strings.HasPrefix(told, mcp.ServerDiscover) || kind == fault.RPC && !strings.HasSuffix(told, mcp.Initialize+" ") {
				t.Errorf("%v %s: told in %q", era, data, told)
			}
			s.Close()
		}
	}
}
