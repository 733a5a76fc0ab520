package echo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// serveSDK is the server made with go-sdk.
func serveSDK(o Options) error {
	log, err := openLog(o.Log)
	if err != nil {
		return err
	}
	if o.Listen == "" {
		return newSDK(o, log).Run(context.Background(), &mcp.StdioTransport{})
	}
	var handler atomic.Pointer[mcp.StreamableHTTPHandler]
	forget := func() {
		server := newSDK(o, log)
		handler.Store(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	}
	forget()
	return listen(o.Listen, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == DropPath {
			forget()
			return
		}
		handler.Load().ServeHTTP(w, r)
	}))
}

type arguments struct {
	Text  string `json:"text"`
	Bytes int    `json:"bytes"`
	ID    string `json:"id"`
	MS    int    `json:"ms"`
}

func newSDK(o Options, log *execLog) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "echo", Version: "1"}, nil)
	for _, raw := range tools(o.Tools) {
		var t mcp.Tool
		if err := json.Unmarshal([]byte(raw), &t); err != nil {
			panic("bug: a tool of the benchmark is not JSON: " + err.Error())
		}
		s.AddTool(&t, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var a arguments
			if err := json.Unmarshal(r.Params.Arguments, &a); err != nil {
				return nil, fmt.Errorf("arguments: %w", err)
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: run(t.Name, a, log)}}}, nil
		})
	}
	return s
}

func run(tool string, a arguments, log *execLog) string {
	switch tool {
	case "echo":
		return a.Text
	case "blob":
		return strings.Repeat("x", a.Bytes)
	case "work", "work_again":
		log.add(a.ID)
		time.Sleep(time.Duration(a.MS) * time.Millisecond)
		return a.ID
	default:
		return ""
	}
}
