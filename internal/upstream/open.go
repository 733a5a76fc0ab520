package upstream

import (
	"context"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/cgroup"
	"github.com/everline/everline/internal/transport"
)

// openTransport opens the transport that the configuration names.
func (h *handshake) openTransport(ctx context.Context, k transport.Kind, o transport.Options) (transport.Conn, error) {
	switch s := &h.opts.Server; k {
	case transport.Stdio:
		return transport.OpenStdio(ctx, h.stdioSpec(), o)
	case transport.HTTP:
		return transport.OpenHTTP(ctx, httpSpec(s), o)
	case transport.SSE:
		return transport.OpenSSE(ctx, httpSpec(s), o)
	default:
		return nil, fault.New(fault.Invalid, "start", "the server has neither a command nor a URL")
	}
}

func (h *handshake) stdioSpec() transport.StdioSpec {
	s := &h.opts.Server
	return transport.StdioSpec{
		Command:   s.Command,
		Args:      s.Args,
		Env:       transport.BaseEnv(s.Env),
		Dir:       s.Cwd,
		StopGrace: s.StopGrace,
		Limits:    cgroup.Limits(s.Limits),
		Spares:    h.opts.Spares,
	}
}

func httpSpec(s *config.Server) transport.HTTPSpec {
	return transport.HTTPSpec{URL: s.URL, Headers: s.Headers, PostURL: s.MessageURL, IdleTimeout: s.StreamIdle}
}
