package gosdk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/everlinetest"
	"github.com/everline/everline/gosdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func greet(args json.RawMessage) (any, error) {
	var a struct{ Name string }
	err := json.Unmarshal(args, &a)
	return "hello " + a.Name, err
}

var greeter = everlinetest.Tool{Name: "greet", ReadOnly: true, Call: greet}

func open(ctx context.Context, server *everlinetest.Server) (*everline.Hub, error) {
	cfg := config.New()
	cfg.Servers = []config.Server{server.Config("door")}
	hub, err := everline.Open(ctx, cfg, everline.Options{})
	if err != nil {
		return nil, err
	}
	return hub, hub.Connected(ctx, "door")
}

// An existing client of the SDK lists, calls, and does not notice that the
// server was restarted.
func ExampleTransport() {
	server := everlinetest.New(greeter)
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	hub, err := open(ctx, server)
	if err != nil {
		log.Fatal(err)
	}
	defer hub.Close(ctx)

	client := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1.0"}, nil)
	session, err := client.Connect(ctx, gosdk.Transport(hub), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	list, err := session.ListTools(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(list.Tools), list.Tools[0].Name)

	server.Crash()
	time.AfterFunc(100*time.Millisecond, server.Restart)
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "greet", Arguments: map[string]any{"name": "again"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	// Output:
	// 1 greet
	// hello again
}

func TestTools(t *testing.T) {
	server := everlinetest.New(greeter, everlinetest.Tool{Name: "leave", InputSchema: `{"type":"object","required":["when"]}`})
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	hub, err := open(ctx, server)
	if err != nil {
		t.Fatal(err)
	}
	defer hub.Close(ctx)
	tools, err := gosdk.Tools(hub)
	if err != nil || len(tools) != 2 || tools[0].Name != "greet" || !tools[0].Annotations.ReadOnlyHint || tools[1].Name != "leave" {
		t.Errorf("%v, %v", tools, err)
	}
}

// A failure reaches the client as a result that its model can read, with what
// is known about the call.
func TestFailuresAreReadable(t *testing.T) {
	var server *everlinetest.Server
	server = everlinetest.New(everlinetest.Tool{Name: "pay", Call: func(json.RawMessage) (any, error) {
		server.Crash() // at work: nobody can tell whether it paid
		return "paid", nil
	}})
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	hub, err := open(ctx, server)
	if err != nil {
		t.Fatal(err)
	}
	defer hub.Close(ctx)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1.0"}, nil).Connect(ctx, gosdk.Transport(hub), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "pay"})
	if err != nil || !result.IsError {
		t.Fatalf("got %+v, %v", result, err)
	}
	outcome, _ := result.Meta["everline/outcome"].(map[string]any)
	if outcome["outcome"] != "unknown" || outcome["server"] != "door" || server.Calls("pay") != 1 {
		t.Errorf("outcome %v after %d calls", outcome, server.Calls("pay"))
	}
}
