package gateway

import (
	"fmt"
	"strings"
	"testing"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/mcptest"
)

// MCP Apps: what a server declares, its tools' _meta.ui and its ui:// resources reach
// clients of both eras byte for byte, and what a client declares reaches the server.
func TestAppsPassInBothDirectionsAndEras(t *testing.T) {
	const (
		tool     = `{"name":"chart","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://charts/bar","visibility":["model","app"]},"n":1.50}}`
		resource = `{"uri":"ui://charts/bar","name":"bar","mimeType":"text/html;profile=mcp-app","_meta":{"ui":{"prefersBorder":true}}}`
		content  = `"contents":[{"uri":"ui://charts/bar","mimeType":"text/html;profile=mcp-app","text":"<p>\u00e9</p>","_meta":{"ui":{"csp":{"connectDomains":["https://x.example"]}}}}]`
		shows    = `"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}`
		offered  = `"extensions":{"io.modelcontextprotocol/ui":{"v":1.0},"com.example/other":{}}`
	)
	for era, name := range map[mcptest.Era]string{mcptest.Legacy: "legacy", mcptest.Modern: "modern", mcptest.Dual: "dual"} {
		t.Run(name, func(t *testing.T) {
			srv := mcptest.New(mcptest.Config{
				Era: era, Tools: []string{tool}, Resources: []string{resource},
				Capabilities: `{"tools":{},"resources":{},` + offered + `}`,
			})
			srv.On("resources/read", func(*mcptest.Request) *mcptest.Reply { return &mcptest.Reply{Result: "{" + content + "}"} })
			cfg := config.NewServer("one")
			cfg.Transport, cfg.URL = "http", mcptest.Web(t, srv).URL+"/mcp"
			s := wholeOf(t, cfg)

			r := s.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{` + shows + `},"clientInfo":{"name":"t","version":"1"}}}`)
			want(t, r, 200, offered)
			id := "Mcp-Session-Id: " + r.header.Get("Mcp-Session-Id")
			want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, id), 200, tool)
			want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"resources/list"}`, id), 200, resource)
			want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"ui://charts/bar"}}`, id), 200, content)
			want(t, s.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"chart"}}`, id), 200, `"result"`)

			want(t, s.modern("1", "server/discover", "", ""), 200, offered)
			want(t, s.modern("1", "tools/list", "", ""), 200, tool)
			want(t, s.modern("1", "resources/read", "ui://charts/bar", `,"uri":"ui://charts/bar"`), 200, content)

			method := "initialize"
			if era != mcptest.Legacy {
				method = "tools/call"
			}
			if got := fmt.Sprint(string(srv.Requests(method)[0].Params)); !strings.Contains(got, shows) {
				t.Errorf("the server is not told what the client shows: %s", got)
			}
		})
	}
}
