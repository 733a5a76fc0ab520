package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/prompt"
	"github.com/everline/everline/internal/toolargs"
)

// asksForName is a server whose tool asks for a name, in the way of its era, and
// says what it got.
func asksForName(era mcptest.Era) *mcptest.Server {
	const params = `{"message":"Who is there?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}`
	s := mcptest.New(mcptest.Config{Era: era})
	text := func(got string) *mcptest.Reply {
		return &mcptest.Reply{Result: `{"resultType":"complete","content":[{"type":"text","text":"got ` + strings.ReplaceAll(strings.ReplaceAll(got, `\`, `\\`), `"`, `\"`) + `"}]}`}
	}
	s.On("tools/call", func(r *mcptest.Request) *mcptest.Reply {
		if era == mcptest.Modern {
			if !strings.Contains(string(r.Params), "inputResponses") {
				return &mcptest.Reply{Result: `{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":` + params + `}}}`}
			}
			return text(string(r.Params))
		}
		n := len(s.Answers())
		r.Send(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":` + params + `}`)
		s.Await(quiet{}, "the answer", func() bool { return len(s.Answers()) > n })
		return text(string(s.Answers()[n]))
	})
	return s
}

type quiet struct{}

func (quiet) Helper()               {}
func (quiet) Cleanup(func())        {}
func (quiet) Fatalf(string, ...any) {}

// U12: call fills in the forms that a tool asks for, of servers of both eras;
// where nobody can answer it says so, and how to.
func TestFaultU12CallServesForms(t *testing.T) {
	t.Parallel()
	for era, name := range map[mcptest.Era]string{mcptest.Legacy: "legacy", mcptest.Modern: "modern"} {
		t.Run(name, func(t *testing.T) {
			a, out, errs := calling(t, asksForName(era))
			shown := &strings.Builder{}
			q := prompt.New(strings.NewReader("Ann\r\r"), shown, func() (func(), error) { return func() {}, nil })
			if err := a.callAsking(t.Context(), "srv.echo", toolargs.Args{}, 0, q); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), "Ann") || !strings.Contains(shown.String(), "Who is there?") {
				t.Errorf("printed %s, shown %s", out, shown)
			}
			out.Reset()
			nobody := prompt.New(strings.NewReader(""), errs, nil)
			err := a.callAsking(t.Context(), "srv.echo", toolargs.Args{}, 0, nobody)
			if era == mcptest.Legacy && (err != nil || !strings.Contains(out.String(), "nobody can answer here")) {
				t.Errorf("printed %s, %v", out, err)
			}
			if said := fmt.Sprint(errs, err); !strings.Contains(said, "make the call on a terminal") {
				t.Errorf("said %q", said)
			}
		})
	}
}

// calling is an app on the socket of a hub with one server.
func calling(t *testing.T, s *mcptest.Server) (a *app, out, errs *bytes.Buffer) {
	t.Helper()
	cfg := config.New()
	c := config.NewServer("srv")
	c.Transport, c.URL = "http", mcptest.Web(t, s).URL+"/mcp"
	cfg.Servers = []config.Server{c}
	dir := filepath.Join(t.TempDir(), "state")
	socket, err := admin.Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	hub, err := everline.Open(t.Context(), cfg, everline.Options{StateDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	api := admin.New(admin.Options{Hub: hub, Journal: admin.NewJournal(), StateDir: dir})
	srv := &http.Server{Handler: api.Handler(), ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() { // ends with srv, which is waited for
		defer close(done)
		_ = srv.Serve(socket)
	}()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = srv.Close()
		<-done
		if err := hub.Close(ctx); err != nil {
			t.Error(err)
		}
		_ = socket.Close()
	})
	if _, err := hub.Await(t.Context(), "srv", 0); err != nil {
		t.Fatal(err)
	}
	out, errs = &bytes.Buffer{}, &bytes.Buffer{}
	return &app{stateDir: dir, streams: &streams{stdin: strings.NewReader(""), stdout: out, stderr: errs}}, out, errs
}
