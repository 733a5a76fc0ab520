package slot

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/transport/http"
	"github.com/everline/everline/internal/upstream"
)

// The same story as TestFaultA1 with a real upstream over HTTP: the server
// forgets its sessions under fifty calls.
func TestFaultA1OverHTTP(t *testing.T) {
	srv := mcptest.New(mcptest.Config{})
	t.Cleanup(srv.Close)
	site := mcptest.Web(t, srv)
	spec := config.NewServer("web")
	spec.Transport, spec.URL = "http", site.URL+"/mcp"
	open := func(ctx context.Context, _ transport.Kind, o transport.Options) (transport.Conn, error) {
		return http.Open(ctx, http.Spec{URL: spec.URL}, o)
	}
	s := New(Options{Server: spec, Dial: func(ctx context.Context, s config.Server, gen uint64, h Hooks) (Upstream, error) {
		return upstream.Start(ctx, upstream.Options{Server: s, Gen: gen, Name: "everline", Version: "test", Changed: h.Changed, Open: open})
	}})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	call := func() error {
		_, err := s.Call(ctx, &upstream.Call{Method: "tools/call", Name: "echo", Params: []byte(`{"name":"echo","arguments":{}}`)}, config.ReplayNever)
		return err
	}
	if err := call(); err != nil {
		t.Fatal(err)
	}
	before := s.View()
	srv.DropSessions()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if err := call(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	after := s.View()
	if n := srv.Count("initialize"); n != 2 || after.State.Gen != before.State.Gen+1 {
		t.Errorf("%d handshakes, generation %d after %d", n, after.State.Gen, before.State.Gen)
	}
	if len(after.Catalog.Items[catalog.Tools]) != 3 || after.Catalog != before.Catalog {
		t.Error("the same tools were published anew")
	}
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
}
