package upstream

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/transport"
)

func wasModern(k transport.Kind) Era { return Era{Transport: k, Version: "2026-07-28", Modern: true} }

// R1: a server that was modern in its last generation is a legacy one now. Whatever
// it says to the probe, the start ends with a handshake of the legacy era.
func TestFaultR1_RememberedModernIsLegacyNow(t *testing.T) {
	for name, rep := range map[string]mcptest.Reply{
		"an error":             {Error: `{"code":-32601,"message":"Method not found"}`},
		"legacy versions":      {Status: 400, Error: `{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2025-06-18"],"requested":"2026-07-28"}}`},
		"yes to everything":    {Result: `{}`},
		"only legacy versions": {Result: `{"supportedVersions":["2025-06-18"],"capabilities":{}}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := mcptest.New(mcptest.Config{})
			s.On("server/discover", func(*mcptest.Request) *mcptest.Reply { return &rep })
			opts, _ := options(overWeb(t, s))
			opts.Era = wasModern(transport.HTTP)
			u := start(t, opts)
			if e := u.Info().Era; e.Modern || e.Version == "" || s.Count("initialize") != 1 {
				t.Errorf("era %+v, %d initializes", e, s.Count("initialize"))
			}
			if n := len(listAll(t, u, nil).Items[0]); n != 3 {
				t.Errorf("%d tools", n)
			}
		})
	}
}

// R1: the same with a server that is silent on the probe, over a pipe and over
// HTTP: silence means legacy there, too, and does not use the start up.
func TestFaultR1_RememberedModernIsSilentNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		s.On("server/discover", hang)
		begun := time.Now()
		u, _ := inMemory(t, s, func(o *Options) { o.Era = wasModern(transport.Memory) })
		if e := u.Info().Era; e.Modern || time.Since(begun) != modernProbeTimeout {
			t.Errorf("era %+v after %v", e, time.Since(begun))
		}
	})
	t.Run("a server of both eras that is slow once nothing else is known of it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := mcptest.New(mcptest.Config{Era: mcptest.Dual})
			s.Next("server/discover", 1, mcptest.Reply{Delay: 2 * stdioProbeTimeout})
			u, _ := inMemory(t, s, func(o *Options) { o.Era = Era{Modern: true} })
			if e := u.Info().Era; !e.Modern || s.Count("initialize") != 0 {
				t.Errorf("era %+v, %d initializes", e, s.Count("initialize"))
			}
		})
	})
	t.Run("a modern server that starts slowly", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := mcptest.New(mcptest.Config{Era: mcptest.Modern})
			s.Next("server/discover", 1, mcptest.Reply{Delay: 30 * time.Second})
			s.Next("initialize", 1, mcptest.Reply{Delay: 20 * time.Second, Error: `{"code":-32601,"message":"no such method"}`})
			u, _ := inMemory(t, s, func(o *Options) { o.Era = wasModern(transport.Memory) })
			if e := u.Info().Era; !e.Modern {
				t.Errorf("era %+v", e)
			}
		})
	})
}

// A modern server that refuses initialize after a silent probe may have been
// replaced by one that names its legacy versions: no start ends without one.
func TestFaultR1_EveryStartAgreesToAVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcptest.New(mcptest.Config{})
		s.Next("server/discover", 1, mcptest.Reply{Hang: true})
		s.Next("server/discover", 1, mcptest.Reply{Error: `{"code":-32022,"message":"?","data":{"supported":["2025-06-18"]}}`})
		s.Next("initialize", 1, mcptest.Reply{Error: `{"code":-32603,"message":"starting"}`})
		u, _ := inMemory(t, s)
		if e := u.Info().Era; e.Modern || e.Version != "2025-06-18" || s.Count("initialize") != 2 {
			t.Errorf("era %+v, %d initializes", e, s.Count("initialize"))
		}
	})
}

// R1: a server that answers the probe and then ends is started again, as one
// that ends on it, and not probed.
func TestFaultR1_ExitOnceTheProbeIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := mcptest.New(mcptest.Config{}), mcptest.New(mcptest.Config{})
		first.Next("server/discover", 1, mcptest.Reply{Error: `{"code":-32600,"message":"expected initialize"}`})
		first.Next("initialize", 1, mcptest.Reply{Cut: true})
		opts, _ := options(config.Server{})
		opts.Open = memory(first, second)
		u := start(t, opts)
		if second.Count("server/discover") != 0 || second.Count("initialize") != 1 {
			t.Errorf("%d probes, %d initializes", second.Count("server/discover"), second.Count("initialize"))
		}
		call(t, u, `{"name":"echo"}`)
	})
}
