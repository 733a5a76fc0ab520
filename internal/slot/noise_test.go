package slot

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/upstream"
)

// starting runs a slot whose server, in memory, is served by serve.
func starting(t *testing.T, serve mcptest.ServeFunc, story func(s *Slot)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		dial := func(ctx context.Context, spec config.Server, gen uint64, h Hooks) (Upstream, error) {
			u, err := upstream.Start(ctx, upstream.Options{
				Server: spec, Gen: gen, Name: "everline", Version: "test", Linked: h.Linked,
				Open: func(_ context.Context, _ transport.Kind, o transport.Options) (transport.Conn, error) {
					return mcptest.OpenMemory(serve, o), nil
				},
			})
			if err != nil {
				return nil, err
			}
			return u, nil
		}
		s := New(Options{Server: spec(), Dial: dial, Rand: func() float64 { return 0.5 }})
		story(s)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}

// causeAt is the cause that is shown d after now.
func causeAt(s *Slot, d time.Duration) string {
	time.Sleep(d) // the bubble's clock
	synctest.Wait()
	if c := s.View().Cause; c != nil {
		return c.Reason()
	}
	return ""
}

// What a server writes instead of answering the handshake is the cause that is
// shown within 2 s, long before the start has failed, and with its failure.
func TestFaultS3_NoiseInTheHandshake(t *testing.T) {
	serve := func(_ context.Context, in <-chan []byte, out func([]byte)) {
		for range in {
			out([]byte("Server listening on port 3000"))
		}
	}
	starting(t, serve, func(s *Slot) {
		if c := causeAt(s, 2*time.Second); !strings.Contains(c, "Server listening on port 3000") || s.View().Seen() != "connecting" {
			t.Errorf("%s: cause %q", s.View().Seen(), c)
		}
		if c := causeAt(s, time.Minute-2*time.Second); !strings.Contains(c, "listening on port 3000") || s.View().Cause.Kind != fault.Deadline {
			t.Errorf("cause %q", c)
		}
		if r := s.View().Cause.Remedy; !strings.Contains(r, "stdout") {
			t.Errorf("remedy %q", r)
		}
	})
}

// A handshake or a first listing that cannot be read fails immediately, and the
// cause names it.
func TestFaultS3_UnreadableStart(t *testing.T) {
	for broken, answers := range map[string][]string{
		"initialize": {"NaN", "NaN"},
		"tools/list": {`{"supportedVersions":"none"}`, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`},
	} {
		serve := func(_ context.Context, in <-chan []byte, out func([]byte)) {
			for frame := range in {
				id, method := field(frame, "id"), field(frame, "method")
				answer := "NaN"
				switch method {
				case `"server/discover"`:
					answer = answers[0]
				case `"initialize"`:
					answer = answers[1]
				}
				if id != "" {
					out([]byte(`{"jsonrpc":"2.0","id":` + id + `,"result":` + answer + `}`))
				}
			}
		}
		starting(t, serve, func(s *Slot) {
			if c := causeAt(s, 2*time.Second); !strings.Contains(c, broken) || !strings.Contains(c, "the answer is not JSON: ") {
				t.Errorf("%s: cause %q", broken, c)
			}
		})
	}
}

// field is the raw value of a member of a flat beginning of a frame.
func field(frame []byte, name string) string {
	_, rest, ok := strings.Cut(string(frame), `"`+name+`":`)
	if !ok {
		return ""
	}
	end := strings.IndexAny(rest, ",}")
	return rest[:end]
}

// A server that is slow, greets on stdout and comes up is to blame for nothing.
func TestNoiseIsForgiven(t *testing.T) {
	noise := "Welcome"
	srv := newServer("a")
	synctest.Test(t, func(t *testing.T) {
		dial := func(ctx context.Context, c config.Server, gen uint64, h Hooks) (Upstream, error) {
			h.Linked(func() transport.Info { return transport.Info{Noise: 1, LastNoise: noise} })
			time.Sleep(3 * time.Second) // the bubble's clock
			return srv.Dial(ctx, c, gen, h)
		}
		s := New(Options{Server: spec(), Dial: dial})
		if c := causeAt(s, 2*time.Second); !strings.Contains(c, noise) {
			t.Errorf("cause %q", c)
		}
		if c := causeAt(s, 2*time.Second); c != "" || s.View().Seen() != "connected" {
			t.Errorf("%s: cause %q", s.View().Seen(), c)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A failed start names the request that failed, and the server's own words.
func TestFaultW12(t *testing.T) {
	own := &fault.RPCError{Code: -32603, Message: "fetch failed", Raw: []byte(`{"code":-32603,"message":"fetch failed"}`)}
	for want, f := range map[string]*fault.Fault{
		"tools/list failed: fetch failed (-32603)":   {Kind: fault.RPC, Op: "tools/list", Outcome: fault.Answered, RPC: own},
		"prompts/list failed: HTTP 500: no database": {Kind: fault.HTTPStatus, Op: "prompts/list", Status: 500, Err: fault.New(0, "", "HTTP 500: no database").Err},
	} {
		srv := newServer("a")
		srv.list = func(context.Context, *fake, int) (*catalog.Catalog, error) { return nil, f }
		play(t, Options{}, srv, 0.5, func(b *bench) {
			b.at(5 * time.Second)
			if c := b.View().Cause; c == nil || c.Reason() != want || c.Kind != f.Kind {
				t.Errorf("cause %v, want %s", c, want)
			}
		})
	}
}
