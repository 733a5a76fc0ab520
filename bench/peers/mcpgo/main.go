// Command mcpgoproxy is the proxy that one writes in an afternoon with
// mark3labs/mcp-go: each server is connected to once, its tools are copied,
// calls are passed on, and nothing is supervised. It is a module of its own, so
// that everline does not depend on that library.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"sync"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

type entry struct {
	Command string
	Args    []string
	URL     string
}

func main() {
	listen, file := flag.String("listen", "", "address"), flag.String("config", "", "file with mcpServers")
	flag.Parse()
	if err := run(*listen, *file); err != nil {
		log.Fatal(err)
	}
}

func run(listen, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var cfg struct{ MCPServers map[string]entry }
	if err := json.Unmarshal(text, &cfg); err != nil {
		return err
	}
	s := server.NewMCPServer("mcpgoproxy", "1", server.WithToolCapabilities(true))
	errs := make(chan error, len(cfg.MCPServers))
	var wg sync.WaitGroup
	for name, e := range cfg.MCPServers {
		wg.Go(func() { errs <- copyTools(s, name, e) })
	}
	wg.Wait()
	for range cap(errs) {
		err = errors.Join(err, <-errs)
	}
	if err != nil {
		return err
	}
	return server.NewStreamableHTTPServer(s).Start(listen)
}

func connect(ctx context.Context, e entry) (*client.Client, error) {
	if e.URL == "" {
		return client.NewStdioMCPClient(e.Command, nil, e.Args...)
	}
	c, err := client.NewStreamableHttpClient(e.URL)
	if err != nil {
		return nil, err
	}
	return c, c.Start(ctx)
}

func copyTools(s *server.MCPServer, name string, e entry) error {
	ctx := context.Background()
	c, err := connect(ctx, e)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	hello := mcp.InitializeRequest{}
	hello.Params.ProtocolVersion = "2025-06-18" // the newest with a handshake that go-sdk servers over HTTP take from it
	hello.Params.ClientInfo = mcp.Implementation{Name: "mcpgoproxy", Version: "1"}
	if _, err := c.Initialize(ctx, hello); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	list, err := c.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, tool := range list.Tools {
		own := tool.Name
		tool.Name = name + "__" + own
		s.AddTool(tool, func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			r.Params.Name = own
			return c.CallTool(ctx, r)
		})
	}
	return nil
}
