package upstream

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/transport"
)

// childServer is the configuration of a real process.
func childServer(cfg mcptest.Config) config.Server {
	command, args, env := mcptest.Child(cfg)
	return config.Server{Name: "test", Transport: "stdio", Command: command, Args: args, Env: env, StopGrace: time.Second}
}

func TestEraOverStdio(t *testing.T) {
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern, mcptest.Dual} {
		opts, _ := options(childServer(mcptest.Config{Era: era}))
		u := start(t, opts)
		if e := u.Info().Era; e.Modern != (era != mcptest.Legacy) || e.Transport != transport.Stdio {
			t.Errorf("era %d: %+v", era, e)
		}
		call(t, u, `{"name":"work","arguments":{"id":"1"}}`)
	}
}

func TestFaultR1_ExitOnTheProbe(t *testing.T) {
	journal := filepath.Join(t.TempDir(), "journal")
	opts, _ := options(childServer(mcptest.Config{ExitOnProbe: true, Journal: journal}))
	u := start(t, opts)
	if e := u.Info().Era; e.Modern {
		t.Errorf("era %+v", e)
	}
	call(t, u, `{"name":"echo"}`)
	if starts, probes := mcptest.JournalCount(journal, "start"), mcptest.JournalCount(journal, "request server/discover"); starts != 2 || probes != 1 {
		t.Errorf("%d starts, %d probes; want 2 and 1", starts, probes)
	}
	opts.Era = u.Info().Era
	start(t, opts)
	if starts := mcptest.JournalCount(journal, "start"); starts != 3 {
		t.Errorf("%d starts; a known era costs one", starts)
	}
}

func TestFaultR1_SilenceOnTheProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		s.Next("server/discover", 1, mcptest.Reply{Hang: true})
		begun := time.Now()
		u, _ := inMemory(t, s)
		if d := time.Since(begun); d != stdioProbeTimeout {
			t.Errorf("took %v", d)
		}
		if u.Info().Era.Modern {
			t.Error("silence is not modern")
		}
	})
}

// A modern server that starts slowly is not taken for a legacy one.
func TestFaultR1_SlowModernServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{Era: mcptest.Modern})
		s.Next("server/discover", 1, mcptest.Reply{Delay: 20 * time.Second})
		s.Next("initialize", 1, mcptest.Reply{Delay: 18 * time.Second, Error: `{"code":-32601,"message":"no such method"}`})
		begun := time.Now()
		u, _ := inMemory(t, s)
		if e := u.Info().Era; !e.Modern || time.Since(begun) != 20*time.Second {
			t.Errorf("era %+v after %v", e, time.Since(begun))
		}
	})
}

func TestFaultR2_OverStdio(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{Era: mcptest.Modern, Versions: []string{"2026-10-01"}})
		opts, _ := options(config.Server{})
		opts.Open = memory(s)
		if f := refused(t, opts); f.Kind != fault.NoVersion || s.Count("initialize") != 0 {
			t.Errorf("%v, %d initialize", f, s.Count("initialize"))
		}
	})
}

func TestFaultR3_NoisyProbe(t *testing.T) {
	var lines atomic.Int64
	opts, _ := options(childServer(mcptest.Config{StderrBytes: 200 << 10}))
	opts.Stderr = func(string) { lines.Add(1) }
	u := start(t, opts)
	if u.Info().Era.Modern {
		t.Error("modern")
	}
	call(t, u, `{"name":"echo"}`)
}

// A server that never answers fails at the deadline of the start, and nothing
// of it stays alive (goleak, and the process is waited for by Close).
func TestFaultD2_DeafServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{Deaf: true})
		opts, _ := options(config.Server{StartupTimeout: 30 * time.Second})
		opts.Open = memory(s)
		begun := time.Now()
		if f := refused(t, opts); f.Kind != fault.Deadline || time.Since(begun) != 30*time.Second {
			t.Errorf("%v (%v) after %v", f, f.Kind, time.Since(begun))
		}
	})
	t.Run("HTTP", func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		s.On("server/discover", hang)
		s.On("initialize", hang)
		opts, _ := options(overWeb(t, s))
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		u, err := Start(ctx, opts)
		if err == nil {
			closeNow(t, u)
			t.Fatal("Start succeeded")
		}
		if f := faultOf(t, err); f.Kind != fault.Deadline {
			t.Errorf("%v (%v)", f, f.Kind)
		}
		if s.Count("notifications/cancelled") != 0 {
			t.Error("initialize was cancelled")
		}
	})
}

// A process that is not there, and one that ends at once.
func TestFaultD3_FailsAtOnceWithTheReason(t *testing.T) {
	opts, _ := options(config.Server{Transport: "stdio", Command: "/nonexistent/mcp-server"})
	if f := refused(t, opts); f.Kind != fault.Missing {
		t.Errorf("%v (%v)", f, f.Kind)
	}
	opts, _ = options(config.Server{Transport: "stdio", Command: "/bin/sh", Args: []string{"-c", "echo no key >&2; exit 7"}})
	f := refused(t, opts)
	if f.Kind != fault.Exited || f.Exit == "" || len(f.Stderr) != 1 || f.Stderr[0] != "no key" {
		t.Errorf("%v (%v, %q, stderr %q)", f, f.Kind, f.Exit, f.Stderr)
	}
}
