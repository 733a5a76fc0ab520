// Command goclients is a client of another maker that calls without pause:
// goclients KIND URL NAME, with the output of ../clients/restart.mjs; or, with a fourth
// argument, "steps", when it is told to, as ../clients/steps.mjs does. It is a
// module of its own, because it needs releases that everline does not.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/mark3labs/mcp-go/client"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// call makes one call of a tool.
type call func(ctx context.Context, tool string, arguments map[string]any) error

// tools are called in turn.
var tools = []string{"one__work", "two__work"}

var kinds = map[string]func(ctx context.Context, url, name string) (call, error){
	"gosdk-1.0": gosdk,
	"mcp-go":    mcpGo,
}

func main() {
	work := run
	if len(os.Args) > 4 && os.Args[4] == "steps" {
		work = steps
	}
	if err := work(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type line struct {
	ID       string `json:"id"`
	Tries    int    `json:"tries"`
	MS       int64  `json:"ms"`
	Sessions int    `json:"sessions,omitempty"` // opened because the library had given one up by itself
	Error    string `json:"error,omitempty"`
}

func run(kind, url, name string) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	one, err := kinds[kind](ctx, url, name)
	if err != nil {
		return err
	}
	go func() { // ends with the program
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(map[string]bool{"ready": true}); err != nil {
		return err
	}
	for n := 0; ctx.Err() == nil; n++ {
		l := line{ID: fmt.Sprintf("%s-%d", name, n)}
		begun := time.Now()
		for {
			l.Tries++
			err = one(ctx, tools[n%2], map[string]any{"id": fmt.Sprintf("%s-%d", l.ID, l.Tries)})
			if !broke(err) && !givenUp(err) || ctx.Err() != nil || time.Since(begun) > 30*time.Second {
				break
			}
			time.Sleep(20 * time.Millisecond)
			if givenUp(err) {
				if again, err := kinds[kind](ctx, url, name); err == nil {
					one, l.Sessions = again, l.Sessions+1
				}
			}
		}
		if ctx.Err() != nil {
			break // of this end, nothing is said
		}
		l.MS = time.Since(begun).Milliseconds()
		if err != nil {
			l.Error = err.Error()
		}
		if err := out.Encode(l); err != nil {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}

// steps makes a call for each line of standard input.
func steps(kind, url, name string) error {
	ctx := context.Background()
	one, err := kinds[kind](ctx, url, name)
	if err != nil {
		return err
	}
	out, in := json.NewEncoder(os.Stdout), json.NewDecoder(os.Stdin)
	if err := out.Encode(map[string]bool{"ready": true}); err != nil {
		return err
	}
	var next struct {
		Name      string         `json:"name"`
		Arguments map[string]any `json:"arguments"`
	}
	for in.Decode(&next) == nil { // until the end of standard input
		limited, cancel := context.WithTimeout(ctx, 20*time.Second)
		err := one(limited, next.Name, next.Arguments)
		cancel()
		said := map[string]string{"error": ""}
		if err != nil {
			said["error"] = err.Error()
		}
		if err := out.Encode(said); err != nil {
			return err
		}
	}
	return nil
}

// givenUp tells that go-sdk 1.0 has ended its session by itself, as it does when a
// request cannot be sent.
func givenUp(err error) bool { return err != nil && strings.Contains(err.Error(), "client is closing") }

// broke tells a connection that was lost or refused from an answer. Some of
// these libraries hand the text alone on.
func broke(err error) bool {
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	for _, text := range []string{"connection refused", "connection reset", "EOF", "broken pipe", "server closed idle connection"} {
		if err != nil && strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}

func gosdk(ctx context.Context, url, name string) (call, error) {
	c := mcp.NewClient(&mcp.Implementation{Name: name, Version: "1"}, nil)
	session, err := c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url, MaxRetries: 20}, nil)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, tool string, arguments map[string]any) error {
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
		if err == nil && result.IsError {
			err = fmt.Errorf("the tool failed: %v", result.Content)
		}
		return err
	}, nil
}

func mcpGo(ctx context.Context, url, name string) (call, error) {
	c, err := client.NewStreamableHttpClient(url)
	if err != nil {
		return nil, err
	}
	if err := c.Start(ctx); err != nil {
		return nil, err
	}
	var hello mcpgo.InitializeRequest
	hello.Params.ProtocolVersion = mcpgo.LATEST_PROTOCOL_VERSION
	hello.Params.ClientInfo = mcpgo.Implementation{Name: name, Version: "1"}
	if _, err := c.Initialize(ctx, hello); err != nil {
		return nil, err
	}
	return func(ctx context.Context, tool string, arguments map[string]any) error {
		var request mcpgo.CallToolRequest
		request.Params.Name, request.Params.Arguments = tool, arguments
		result, err := c.CallTool(ctx, request)
		if err == nil && result.IsError {
			err = fmt.Errorf("the tool failed: %v", result.Content)
		}
		return err
	}, nil
}
