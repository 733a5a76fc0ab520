package everline_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"strings"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/everlinetest"
	"github.com/everline/everline/fault"
)

// shout is a tool for the examples.
var shout = everlinetest.Tool{
	Name: "shout", Description: "Says it louder.", ReadOnly: true,
	Call: func(args json.RawMessage) (any, error) {
		var a struct{ Text string }
		if err := json.Unmarshal(args, &a); err != nil {
			return nil, err
		}
		return strings.ToUpper(a.Text), nil
	},
}

// openFor opens a hub on one scripted server; an agent would use config.Load.
func openFor(ctx context.Context, server *everlinetest.Server) *everline.Hub {
	cfg := config.New()
	cfg.Servers = []config.Server{server.Config("voice")}
	hub, err := everline.Open(ctx, cfg, everline.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := hub.Connected(ctx, "voice"); err != nil {
		log.Fatal(err)
	}
	return hub
}

func ExampleOpen() {
	server := everlinetest.New(shout)
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	cfg := config.New()
	cfg.Servers = []config.Server{server.Config("voice")}
	hub, err := everline.Open(ctx, cfg, everline.Options{Name: "my-agent", Version: "1.0"})
	if err != nil {
		log.Fatal(err)
	}
	defer hub.Close(ctx)

	if err := hub.Connected(ctx, "voice"); err != nil {
		log.Fatal(err)
	}
	for tool := range hub.Tools() {
		fmt.Printf("%s of %s: %s\n", tool.Name, tool.Server, tool.Description)
	}
	// Output: shout of voice: Says it louder.
}

func ExampleHub_CallTool() {
	server := everlinetest.New(shout)
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	hub := openFor(ctx, server)
	defer hub.Close(ctx)

	result, err := hub.CallTool(ctx, "shout", map[string]any{"text": "hello"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Text(), result.IsError)
	// Output: HELLO false
}

// A tool that was taken once outlives the restart of its server.
func ExampleTool_Call() {
	server := everlinetest.New(shout)
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	hub := openFor(ctx, server)
	defer hub.Close(ctx)

	tool, _ := hub.Tool("shout")
	server.Crash()
	time.AfterFunc(100*time.Millisecond, server.Restart)
	result, err := tool.Call(ctx, map[string]any{"text": "still here"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Text())
	// Output: STILL HERE
}

func ExampleHub_Watch() {
	server := everlinetest.New(shout)
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	hub := openFor(ctx, server)
	defer hub.Close(ctx)

	server.LoseSessions()
	for e := range hub.Watch(ctx) {
		if lost, ok := e.(event.Lost); ok {
			fmt.Println(lost.Server, "is lost:", lost.Cause.Kind)
			break
		}
	}
	// Output: voice is lost: session_lost
}

// answer serves what servers ask during a call.
func answer(_ context.Context, method string, _ []byte) ([]byte, error) {
	if method != "roots/list" {
		return nil, fault.New(fault.Unsupported, method, "nobody is there to ask")
	}
	return []byte(`{"roots":[]}`), nil
}

func ExampleClient() {
	server := everlinetest.New(shout)
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	hub := openFor(ctx, server)
	defer hub.Close(ctx)

	client := everline.NewClient(answer, nil)
	result, err := hub.CallTool(ctx, "shout", map[string]any{"text": "who"}, everline.AskedBy(client))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Text())
	// Output: WHO
}

// userKey is where a program keeps in a context for whom a call is made.
type userKey struct{}

// withUser sends each call in the name of its user.
type withUser struct{ base http.RoundTripper }

func (w withUser) RoundTrip(req *http.Request) (*http.Response, error) {
	if user, ok := req.Context().Value(userKey{}).(string); ok {
		req = req.Clone(req.Context())
		req.Header.Set("X-User", user)
	}
	return w.base.RoundTrip(req)
}

func ExampleOptions() {
	server := everlinetest.New(shout)
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	cfg := config.New()
	cfg.Servers = []config.Server{server.Config("voice")}
	hub, err := everline.Open(ctx, cfg, everline.Options{
		RoundTripper: func(server string, base http.RoundTripper) http.RoundTripper { return withUser{base} },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer hub.Close(ctx)
	if err := hub.Connected(ctx, "voice"); err != nil {
		log.Fatal(err)
	}

	ann := context.WithValue(ctx, userKey{}, "ann") // goes out as X-User: ann
	result, err := hub.CallTool(ann, "shout", map[string]any{"text": "mine"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Text())
	// Output: MINE
}

func ExampleHub_Apply() {
	server := everlinetest.New(shout)
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	hub := openFor(ctx, server)
	defer hub.Close(ctx)

	next := config.New()
	renamed := server.Config("voice")
	renamed.CallTimeout = 5 * time.Second
	next.Servers = []config.Server{renamed, server.Config("second")}
	plan, err := hub.Apply(ctx, next)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("added", plan.Add, "changed", plan.Change)
	// Output: added [second] changed [voice]
}

func Example_faults() {
	server := everlinetest.New(everlinetest.Tool{Name: "pay"})
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	hub := openFor(ctx, server)
	defer hub.Close(ctx)

	server.Hang("pay") // the call arrives, and is never answered
	short, stop := context.WithTimeout(ctx, 200*time.Millisecond)
	defer stop()
	_, err := hub.CallTool(short, "pay", map[string]any{"cents": 100})
	f, _ := fault.As(err)
	fmt.Println(fault.Is(err, fault.Deadline), f.Outcome)

	_, err = hub.CallTool(ctx, "play", nil)
	f, _ = fault.As(err)
	fmt.Println(fault.Is(err, fault.NotFound), f.Outcome)
	// Output:
	// true unknown
	// true not_sent
}
