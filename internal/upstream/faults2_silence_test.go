package upstream

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/transport"
)

// W4: silence is no verdict. What becomes of a probe that a pipe's server did
// not answer in time, and whether the era may be kept.
func TestFaultW4(t *testing.T) {
	for name, c := range map[string]struct {
		era      mcptest.Era
		probe    mcptest.Reply
		modern   bool // the generation is
		late     bool // the server is found to be modern afterwards
		answered bool // the era may be kept
	}{
		"modern, in time":                       {mcptest.Dual, mcptest.Reply{Run: true, Delay: time.Second}, true, false, true},
		"modern, a second late":                 {mcptest.Dual, mcptest.Reply{Run: true, Delay: 3 * time.Second}, false, true, false},
		"another modern version, late":          {mcptest.Dual, mcptest.Reply{Delay: 3 * time.Second, Error: `{"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}}`}, false, true, false},
		"never":                                 {mcptest.Legacy, mcptest.Reply{Hang: true}, false, false, false},
		"later than anybody waits":              {mcptest.Dual, mcptest.Reply{Run: true, Delay: time.Minute}, false, false, false},
		"a legacy error, in time":               {mcptest.Legacy, mcptest.Reply{Error: `{"code":-32601,"message":"no"}`}, false, false, true},
		"a legacy error, late":                  {mcptest.Legacy, mcptest.Reply{Delay: 3 * time.Second, Error: `{"code":-32601,"message":"no"}`}, false, false, false},
		"yes to everything, late":               {mcptest.Legacy, mcptest.Reply{Delay: 3 * time.Second, Result: `{}`}, false, false, false},
		"a list of legacy versions alone, late": {mcptest.Legacy, mcptest.Reply{Delay: 3 * time.Second, Result: `{"supportedVersions":["2025-11-25"]}`}, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mcptest.New(mcptest.Config{Era: c.era})
				s.Next("server/discover", 1, c.probe)
				late := 0
				begun := time.Now()
				u, _ := inMemory(t, s, func(o *Options) { o.Modern = func() { late++ } })
				if d := time.Since(begun); d > stdioProbeTimeout {
					t.Errorf("the start took %s", d)
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if e := u.Info().Era; e.Modern != c.modern || e.Answered != c.answered || (late == 1) != c.late {
					t.Errorf("era %+v, told %d times", e, late)
				}
				if n := len(listAll(t, u, nil).Items[0]); n != 3 {
					t.Errorf("%d tools", n)
				}
			})
		})
	}
}

// W4: a server that is slow to start and says something else first, or ends on
// one of the two requests that it then finds, is of the era that it turns out to
// be. Nothing of that takes longer than a start and the time for its silence.
func TestFaultW4SlowStarts(t *testing.T) {
	const slow = 3 * time.Second
	for name, c := range map[string]struct {
		cfg    mcptest.Config
		set    func(s *mcptest.Server)
		first  string // a frame that comes at once
		modern bool
		late   bool
		proven bool
		within time.Duration
		starts int
	}{
		"both eras":                     {mcptest.Config{Era: mcptest.Dual}, nil, "", false, true, false, slow, 1},
		"both eras, a banner first":     {mcptest.Config{Era: mcptest.Dual}, nil, "Starting the server ...", false, true, false, slow, 1},
		"both eras, a notice first":     {mcptest.Config{Era: mcptest.Dual}, nil, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"up"}}`, false, true, false, slow, 1},
		"modern only":                   {mcptest.Config{Era: mcptest.Modern}, nil, "", true, true, true, slow, 1},
		"modern only, ends on the rest": {mcptest.Config{Era: mcptest.Modern}, endsOnInitialize, "", true, true, true, 2*slow + readsOn, 2},
		"modern only, garbled refusal": {mcptest.Config{Era: mcptest.Modern}, func(s *mcptest.Server) {
			s.Next("initialize", 1, mcptest.Reply{Error: `"no"`})
		}, "", true, true, true, slow, 1},
		"legacy": {mcptest.Config{}, nil, "", false, false, false, slow, 1},
		"legacy, ends on the probe": {mcptest.Config{ExitOnProbe: true}, func(s *mcptest.Server) {
			s.Next("initialize", 1, mcptest.Reply{Run: true, Delay: readsOn})
		}, "", false, false, false, 2*slow + readsOn, 2},
		"legacy, silent on the probe": {mcptest.Config{}, func(s *mcptest.Server) { s.On("server/discover", hang) }, "", false, false, false, slow, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.cfg.StartDelay = slow
				s := mcptest.New(c.cfg)
				if c.set != nil {
					c.set(s)
				}
				late, starts, begun := 0, 0, time.Now()
				u, _ := inMemory(t, s, func(o *Options) {
					o.Modern = func() { late++ }
					o.Open = func(_ context.Context, _ transport.Kind, o transport.Options) (transport.Conn, error) {
						starts++
						return mcptest.OpenMemory(func(ctx context.Context, in <-chan []byte, out func([]byte)) {
							if c.first != "" {
								out([]byte(c.first))
							}
							s.ServeFrames(ctx, in, out)
						}, o), nil
					}
				})
				if d := time.Since(begun); d > c.within || starts != c.starts {
					t.Errorf("%d starts in %v", starts, d)
				}
				synctest.Wait()
				if e := u.Info().Era; e.Modern != c.modern || e.Proven() != c.proven || (late == 1) != c.late {
					t.Errorf("era %+v, told %d times", e, late)
				}
				if n := len(listAll(t, u, nil).Items[0]); n != 3 {
					t.Errorf("%d tools", n)
				}
			})
		})
	}
}

func endsOnInitialize(s *mcptest.Server) { s.On("initialize", cut) }

func cut(*mcptest.Request) *mcptest.Reply { return &mcptest.Reply{Cut: true, Delay: readsOn} }

// readsOn is how long a server needs for the request before.
const readsOn = time.Millisecond

// W4: a probe that was not answered in time ends with the upstream, and nobody
// is told of it then.
func TestFaultW4TheProbeEndsWithTheUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{Era: mcptest.Dual})
		s.Next("server/discover", 1, mcptest.Reply{Run: true, Delay: 4 * time.Second})
		opts, _ := options(config.Server{})
		opts.Open = memory(s)
		opts.Modern = func() { t.Error("it is told of an upstream that has ended") }
		u, err := Start(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		closeNow(t, u)
		if d := time.Since(begun); d > time.Second {
			t.Errorf("closing took %v", d)
		}
		time.Sleep(time.Minute)
	})
}
