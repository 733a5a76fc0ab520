package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	_ "net/http/pprof" // of the host role, on an address of its own
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/gateway"
)

// rawProxyMain is what passing HTTP on costs with the standard library alone.
func rawProxyMain(args []string) error {
	f := flag.NewFlagSet("rawproxy", flag.ContinueOnError)
	listen, to := f.String("listen", "", "address"), f.String("to", "", "URL of the server")
	if err := f.Parse(args); err != nil {
		return err
	}
	u, err := url.Parse(*to)
	if err != nil {
		return err
	}
	p := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(u)
		if n := r.In.ContentLength; n > 0 {
			r.Out.Body = &exactly{r.In.Body, n}
		}
	}}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, 20_000
	p.Transport = t
	return serveUntilEOF(*listen, p)
}

// exactly is a body that is not read beyond its length. The transport does so
// after it has sent all, to see whether there is more, and takes it for an error
// of the connection if the server has answered, and net/http has closed the
// body, by then: some calls in a thousand of a busy proxy would be cut.
type exactly struct {
	io.ReadCloser
	left int64
}

func (e *exactly) Read(b []byte) (int, error) {
	if e.left <= 0 {
		return 0, io.EOF
	}
	n, err := e.ReadCloser.Read(b[:min(int64(len(b)), e.left)])
	e.left -= int64(n)
	return n, err
}

// serveUntilEOF serves until stdin ends or a signal comes.
func serveUntilEOF(address string, h http.Handler) error {
	s := &http.Server{Addr: address, Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() { // ends with stdin or with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = s.Close()
	}()
	if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// sdkProxyMain is the proxy that one writes in an afternoon with go-sdk: each
// server is connected to once, its tools are copied, calls are passed on, and
// nothing is supervised.
func sdkProxyMain(args []string) error {
	f := flag.NewFlagSet("sdkproxy", flag.ContinueOnError)
	listen, file := f.String("listen", "", "address"), f.String("config", "", "file with mcpServers")
	if err := f.Parse(args); err != nil {
		return err
	}
	text, err := os.ReadFile(*file)
	if err != nil {
		return err
	}
	var cfg struct {
		MCPServers map[string]struct {
			Command string
			Args    []string
			URL     string
		}
	}
	if err := json.Unmarshal(text, &cfg); err != nil {
		return err
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "sdkproxy", Version: "1"}, nil)
	errs := make(chan error, len(cfg.MCPServers))
	var wg sync.WaitGroup
	for name, s := range cfg.MCPServers {
		wg.Go(func() {
			var t mcp.Transport = &mcp.StreamableClientTransport{Endpoint: s.URL}
			if s.URL == "" {
				t = &mcp.CommandTransport{Command: exec.CommandContext(context.Background(), s.Command, s.Args...)}
			}
			errs <- copyTools(server, name, t)
		})
	}
	wg.Wait()
	for range cap(errs) {
		err = errors.Join(err, <-errs)
	}
	if err != nil {
		return err
	}
	return serveUntilEOF(*listen, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
}

func copyTools(server *mcp.Server, name string, t mcp.Transport) error {
	ctx := context.Background()
	client, err := mcp.NewClient(&mcp.Implementation{Name: "sdkproxy", Version: "1"}, nil).Connect(ctx, t, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for tool, err := range client.Tools(ctx, nil) {
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		published := *tool
		published.Name = name + "__" + tool.Name
		server.AddTool(&published, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return client.CallTool(ctx, &mcp.CallToolParams{Name: tool.Name, Arguments: r.Params.Arguments})
		})
	}
	return nil
}

// hostMain is everline's hub and gateway in this program, with what Go can
// tell of itself at another address: profiles at /debug/pprof/, counters at
// /debug/counts.
func hostMain(args []string) error {
	f := flag.NewFlagSet("host", flag.ContinueOnError)
	listen, debug := f.String("listen", "", "address"), f.String("debug", "", "address of the profiles")
	file, state := f.String("config", "", "everline's configuration"), f.String("state", "", "folder for what is kept")
	idle := f.Duration("idle", time.Minute, "how long a session may be idle")
	block := f.Int("block", 0, "block profile rate, in nanoseconds")
	mutex := f.Int("mutex", 0, "mutex profile fraction")
	if err := f.Parse(args); err != nil {
		return err
	}
	runtime.SetBlockProfileRate(*block)
	runtime.SetMutexProfileFraction(*mutex)
	ctx, cancel := signal.NotifyContext(context.Background(), stopSignals...)
	defer cancel()
	cfg, err := config.Load(*file)
	if err != nil {
		return err
	}
	hub, err := everline.Open(ctx, cfg, everline.Options{StateDir: *state})
	if err != nil {
		return err
	}
	g := gateway.New(gateway.ViewOf(hub, ""), gateway.Options{SessionIdle: *idle})
	http.HandleFunc("/debug/counts", counts)
	servers := []*http.Server{
		{Addr: *listen, Handler: g.Handler(), ReadHeaderTimeout: 10 * time.Second},
		{Addr: *debug, ReadHeaderTimeout: 10 * time.Second}, // http.DefaultServeMux
	}
	ended := make(chan error, len(servers))
	for _, s := range servers {
		go func() { ended <- s.ListenAndServe() }() // ends with Close below
	}
	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	return errors.Join(err, shutDown(g, hub, servers))
}

func shutDown(g *gateway.Gateway, hub *everline.Hub, servers []*http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := g.Close(ctx)
	for _, s := range servers {
		err = errors.Join(err, s.Close())
	}
	return errors.Join(err, hub.Close(ctx))
}

// Counts are what a soak watches from inside.
type Counts struct {
	Goroutines int    `json:"goroutines"`
	Heap       uint64 `json:"heap"` // bytes in use after a collection
}

func counts(w http.ResponseWriter, _ *http.Request) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	_ = json.NewEncoder(w).Encode(Counts{runtime.NumGoroutine(), m.HeapAlloc}) // who asks sees that it is cut
}
