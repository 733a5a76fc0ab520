package gateway

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/mcptest"
)

// A hub has the view that package door promises.
func TestHubHasViews(t *testing.T) {
	h, err := everline.Open(t.Context(), config.New(), everline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if ViewOf(h, "g").Exists() || !ViewOf(h, "").Exists() {
		t.Error("a group that nobody configured exists, or the whole does not")
	}
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// whole runs servers, a hub and a gateway, and returns the endpoint's URL.
func whole(t *testing.T, servers map[string]*mcptest.Server) *site {
	t.Helper()
	var all []config.Server
	for name, s := range servers {
		c := config.NewServer(name)
		c.Transport, c.URL = "http", mcptest.Web(t, s).URL+"/mcp"
		all = append(all, c)
	}
	return assemble(t, all...)
}

// wholeOf is whole for servers that run already; it waits until they are up.
func wholeOf(t *testing.T, servers ...config.Server) *site {
	t.Helper()
	s := assemble(t, servers...)
	s.up()
	return s
}

// up waits until all servers are.
func (s *site) up() *site {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	for _, c := range s.real.Config().Servers {
		if _, err := s.real.Await(ctx, c.Name, 0); err != nil {
			s.t.Fatal(err)
		}
	}
	return s
}

func assemble(t *testing.T, servers ...config.Server) *site {
	t.Helper()
	return assembleWith(t, Options{}, servers...)
}

func assembleWith(t *testing.T, opts Options, servers ...config.Server) *site {
	t.Helper()
	cfg := config.New()
	cfg.Servers = servers
	return assembled(t, cfg, func(h *everline.Hub) *Gateway { return New(ViewOf(h, ""), opts) })
}

// assembled is a gateway of a hub with this configuration.
func assembled(t *testing.T, cfg *config.Config, gateway func(*everline.Hub) *Gateway) *site {
	t.Helper()
	h, err := everline.Open(t.Context(), cfg, everline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g := gateway(h)
	srv := httptest.NewServer(g.Handler())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		err := errors.Join(g.Close(ctx), h.Close(ctx))
		srv.Client().CloseIdleConnections()
		srv.Close()
		if err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return &site{t: t, g: g, real: h, url: srv.URL, web: srv.Client()}
}

func TestWholePathInEveryPairOfEras(t *testing.T) {
	for _, front := range []string{"2024-11-05", "2025-11-25", "2026-07-28"} {
		for name, era := range map[string]mcptest.Era{"legacy": mcptest.Legacy, "modern": mcptest.Modern} {
			t.Run(front+" over "+name, func(t *testing.T) {
				up := mcptest.New(mcptest.Config{Era: era, Instructions: "Use it well."})
				s := whole(t, map[string]*mcptest.Server{"srv": up})
				c := connect(t, &mcp.StreamableClientTransport{Endpoint: s.url + "/mcp", HTTPClient: s.web}, front)
				defer c.Close()
				tools, err := c.ListTools(t.Context(), nil) // the very first list is complete
				if err != nil || len(tools.Tools) != 3 {
					t.Fatalf("tools %+v %v", tools, err)
				}
				params := &mcp.CallToolParams{Name: "work", Arguments: map[string]any{"id": "a", "steps": 2}}
				params.SetProgressToken("tok")
				res, err := c.CallTool(t.Context(), params)
				if err != nil || res.IsError || up.Executions("a") != 1 {
					t.Fatalf("call %+v %v, %d executions", res, err, up.Executions("a"))
				}
				if got := within(t, "progress", c.progress); got != "tok" {
					t.Errorf("progress of %s", got)
				}
				up.SetTools(`{"name":"fresh","inputSchema":{"type":"object"}}`)
				eventually(t, "the change is announced and listed", func() bool {
					up.Notify("notifications/tools/list_changed", "")
					select {
					case <-c.tools:
					case <-time.After(20 * time.Millisecond): // a stream may not be attached yet
						return false
					}
					tools, err = c.ListTools(t.Context(), nil)
					return err == nil && len(tools.Tools) == 1 && tools.Tools[0].Name == "fresh"
				})
			})
		}
	}
}

func TestFaultA1WholePathSurvivesLostSessions(t *testing.T) {
	a, b := mcptest.New(mcptest.Config{}), mcptest.New(mcptest.Config{Era: mcptest.Modern})
	s := whole(t, map[string]*mcptest.Server{"a": a, "b": b})
	id := s.initialize("2025-11-25")
	for round := range 5 {
		r := s.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, id)
		if n := strings.Count(r.body, `"inputSchema"`); n != 6 {
			t.Fatalf("round %d: %d tools: %s", round, n, r.body)
		}
		want(t, s.post(call("2", "a__echo", ""), id), 200, `"result":`)
		want(t, s.modern("3", "tools/call", "b__echo", `,"name":"b__echo","arguments":{}`), 200, `"resultType":"complete"`)
		a.DropSessions()
	}
}
