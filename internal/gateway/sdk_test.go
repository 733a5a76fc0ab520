package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	words "github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// The client of go-sdk, which we did not write, judges every transport in
// every version that it speaks.

// sdkHub answers as servers would.
func sdkHub() *hub {
	h := newHub()
	h.publish(item("echo", `{"name":"echo","inputSchema":{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"R"}}}}`,
		words.HeaderParam{Path: []string{"r"}, Name: "R"}))
	h.onCall = func(ctx context.Context, c *everline.Call) ([]byte, error) {
		switch {
		case c.Method == "resources/read":
			return []byte(`{"contents":[{"uri":"` + c.Name + `","text":"content"}]}`), nil
		case c.Method == "prompts/get":
			return []byte(`{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}]}`), nil
		case c.Method == "completion/complete":
			return []byte(`{"completion":{"values":["one"]}}`), nil
		case c.Name == "away":
			return nil, refusal(fault.Unavailable, fault.NotSent)
		case c.Name == "slow":
			<-ctx.Done()
			h.slow <- context.Cause(ctx)
			return nil, &fault.Fault{Kind: fault.Canceled, Op: c.Method, Err: context.Cause(ctx)}
		case c.Name != "echo":
			return nil, fault.New(fault.NotFound, c.Method, "nothing here is called so")
		}
		if c.Progress != nil {
			c.Progress([]byte(`{"progressToken":` + string(wire.Get(c.Params, "_meta", "progressToken")) + `,"progress":1}`))
		}
		return []byte(`{"content":[{"type":"text","text":"echoed"}]}`), nil
	}
	return h
}

// An sdk is a connected client of go-sdk.
type sdk struct {
	*mcp.ClientSession
	progress, tools, updates chan string
}

func connect(t *testing.T, tr mcp.Transport, version string) *sdk {
	t.Helper()
	c := &sdk{progress: make(chan string, 16), tools: make(chan string, 16), updates: make(chan string, 16)}
	client := mcp.NewClient(&mcp.Implementation{Name: "oracle", Version: "1"}, &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { c.tools <- "changed" },
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { c.updates <- r.Params.URI },
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			c.progress <- fmt.Sprint(r.Params.ProgressToken)
		},
	})
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel) // not before: the stream of HTTP+SSE lives as long
	s, err := client.Connect(ctx, tr, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	c.ClientSession = s
	return c
}

func TestSDKClientInEveryVersion(t *testing.T) {
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run("http "+version, func(t *testing.T) {
			h := sdkHub()
			s := serve(t, h, Options{})
			c := connect(t, &mcp.StreamableClientTransport{Endpoint: s.url + "/mcp", HTTPClient: s.web}, version)
			defer c.Close()
			judge(t, h, c, version)
		})
		t.Run("stdio "+version, func(t *testing.T) {
			h := sdkHub()
			g := New(h, Options{})
			defer g.Close(context.Background())
			tr, wait := piped(t, g.ServeStdio)
			c := connect(t, tr, version)
			judge(t, h, c, version)
			c.Close()
			wait()
		})
	}
	t.Run("sse", func(t *testing.T) {
		h := sdkHub()
		s := serve(t, h, Options{})
		c := connect(t, &mcp.SSEClientTransport{Endpoint: s.url + "/sse", HTTPClient: s.web}, "2024-11-05")
		defer c.Close()
		judge(t, h, c, "2024-11-05")
	})
}

// piped is a client's side of run, and a wait for run's end.
func piped(t *testing.T, run func(ctx context.Context, in io.Reader, out io.Writer) error) (mcp.Transport, func()) {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan error, 1)
	go func() { // ends with run
		done <- run(context.Background(), inR, outW)
		outW.Close()
	}()
	return &mcp.IOTransport{Reader: outR, Writer: inW}, func() {
		t.Helper()
		if err := within(t, "the end", done); err != nil {
			t.Errorf("serving ended with %v", err)
		}
	}
}

// judge uses everything that a client can use.
func judge(t *testing.T, h *hub, c *sdk, version string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if got := c.InitializeResult(); got.ProtocolVersion != version || got.ServerInfo.Name != "everline" || !strings.Contains(got.Instructions, "Be kind.") {
		t.Errorf("handshake: %+v", got)
	}
	tools, err := c.ListTools(ctx, nil)
	if err != nil || len(tools.Tools) != 1 || tools.Tools[0].Name != "echo" {
		t.Fatalf("tools: %+v %v", tools, err)
	}
	params := &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"r": "päram"}}
	params.SetProgressToken("tok")
	res, err := c.CallTool(ctx, params)
	if err != nil || len(res.Content) != 1 {
		t.Fatalf("call: %+v %v", res, err)
	}
	if got := within(t, "progress", c.progress); got != "tok" {
		t.Errorf("progress of %s", got)
	}
	res, err = c.CallTool(ctx, &mcp.CallToolParams{Name: "away"})
	if err != nil || !res.IsError || res.Meta["everline/outcome"] == nil {
		t.Errorf("away: %+v %v", res, err)
	}
	var rpc *jsonrpc.Error
	if _, err = c.CallTool(ctx, &mcp.CallToolParams{Name: "nope"}); !errors.As(err, &rpc) || rpc.Code != words.CodeInvalidParams {
		t.Errorf("unknown tool: %v", err)
	}
	judgeRest(ctx, t, h, c, version)
}

func judgeRest(ctx context.Context, t *testing.T, h *hub, c *sdk, version string) {
	t.Helper()
	if p, err := c.ListPrompts(ctx, nil); err != nil || len(p.Prompts) != 1 {
		t.Errorf("prompts: %+v %v", p, err)
	}
	if p, err := c.GetPrompt(ctx, &mcp.GetPromptParams{Name: "hello"}); err != nil || len(p.Messages) != 1 {
		t.Errorf("prompt: %+v %v", p, err)
	}
	if r, err := c.ListResources(ctx, nil); err != nil || len(r.Resources) != 1 {
		t.Errorf("resources: %+v %v", r, err)
	}
	if r, err := c.ListResourceTemplates(ctx, nil); err != nil || len(r.ResourceTemplates) != 0 {
		t.Errorf("templates: %+v %v", r, err)
	}
	if r, err := c.ReadResource(ctx, &mcp.ReadResourceParams{URI: "file:///a"}); err != nil || len(r.Contents) != 1 {
		t.Errorf("read: %+v %v", r, err)
	}
	ref := &mcp.CompleteReference{Type: "ref/prompt", Name: "hello"}
	if r, err := c.Complete(ctx, &mcp.CompleteParams{Ref: ref, Argument: mcp.CompleteParamsArgument{Name: "a"}}); err != nil || len(r.Completion.Values) != 1 {
		t.Errorf("complete: %+v %v", r, err)
	}
	if version != words.ModernVersion {
		if err := c.Ping(ctx, nil); err != nil {
			t.Errorf("ping: %v", err)
		}
		if err := c.Subscribe(ctx, &mcp.SubscribeParams{URI: "file:///a"}); err != nil {
			t.Errorf("subscribe: %v", err)
		}
		h.update("file:///a")
		if got := within(t, "an update", c.updates); got != "file:///a" {
			t.Errorf("update of %s", got)
		}
	}
	h.changed(everline.Tools)
	if version == words.ModernVersion {
		// The SDK does not wait for its listen, which a bridge sends beside other
		// requests: what changed before is not announced.
		eventually(t, "list_changed", func() bool { h.changed(everline.Tools); return len(c.tools) > 0 })
	}
	within(t, "list_changed", c.tools)
	slow, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	if _, err := c.CallTool(slow, &mcp.CallToolParams{Name: "slow"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("slow: %v", err)
	}
	within(t, "the cancel", h.slow)
}
