package fleet

import (
	"context"
	nethttp "net/http"
	"path/filepath"
	"strconv"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/cgroup"
	"github.com/everline/everline/internal/sandbox"
	"github.com/everline/everline/internal/tlsfiles"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/transport/http"
	"github.com/everline/everline/internal/transport/stdio"
	"github.com/everline/everline/internal/typed"
)

// opener opens the transports of a server. An upstream says which.
func (st *starter) opener(s *config.Server) func(context.Context, transport.Kind, transport.Options) (transport.Conn, error) {
	return func(ctx context.Context, k transport.Kind, o transport.Options) (transport.Conn, error) {
		switch k {
		case transport.Stdio:
			return stdio.Open(ctx, st.stdioSpec(s), o)
		case transport.HTTP, transport.SSE:
			spec, f := st.httpSpec(s)
			switch {
			case f != nil:
				return nil, f
			case k == transport.HTTP:
				return http.Open(ctx, spec, o)
			default:
				return http.OpenSSE(ctx, spec, o)
			}
		default:
			return nil, fault.New(fault.Invalid, "start", "the server has neither a command nor a URL")
		}
	}
}

func (st *starter) stdioSpec(s *config.Server) stdio.Spec {
	rules := st.rules(s)
	return stdio.Spec{
		Sandbox: rules, SandboxRequired: rules != nil && s.Sandbox.Require,
		Command:   s.Command,
		Args:      s.Args,
		Env:       stdio.BaseEnv(s.Env),
		Dir:       s.Cwd,
		StopGrace: s.StopGrace,
		Limits:    cgroup.Limits(s.Limits),
		Spares:    st.spares,

		Privileges: s.NewPrivileges,
	}
}

// rules are those of a server's sandbox; nil for none. What is everline's own is
// denied in it.
func (st *starter) rules(s *config.Server) *sandbox.Rules {
	if s.Sandbox == nil {
		return nil
	}
	r := &sandbox.Rules{Read: s.Sandbox.Read, Write: s.Sandbox.Write, Net: s.Sandbox.Net, Denied: *st.own.Load()}
	for _, port := range s.Sandbox.Ports {
		n, _ := strconv.ParseUint(port, 10, 16) // the configuration has been checked
		r.Ports = append(r.Ports, uint16(n))
	}
	return r
}

// keepOwn has sandboxes deny what is everline's own under cfg. It comes before
// members are made of cfg: they start at once.
func (st *starter) keepOwn(cfg *config.Config) {
	own := []string{st.opts.StateDir, st.opts.CredentialsDir, cfg.Audit.Path, cfg.PinsFile}
	for _, other := range cfg.Servers {
		own = append(own, other.Origin.File)
	}
	for _, side := range cfg.SideFiles() {
		own = append(own, side.Path())
	}
	denied := []string{}
	for _, path := range own {
		if path == "" || path == config.AuditStderr {
			continue
		}
		if at, err := filepath.Abs(path); err == nil {
			denied = append(denied, at)
		}
	}
	st.own.Store(&denied)
}

func (st *starter) httpSpec(s *config.Server) (http.Spec, *fault.Fault) {
	spec := http.Spec{Auth: st.credentials.shown(s), URL: s.URL, Headers: s.Headers, PostURL: s.MessageURL, IdleTimeout: s.StreamIdle}
	if wrap, name := st.opts.RoundTripper, s.Name; wrap != nil {
		spec.Wrap = func(base nethttp.RoundTripper) nethttp.RoundTripper { return wrap(name, base) }
	}
	if s.TLS == (config.ServerTLS{}) {
		return spec, nil
	}
	warn := func(text string) { st.warn(s.Name, text) }
	var f *fault.Fault
	if spec.TLS, f = tlsfiles.Open(tlsFiles(s), warn); f != nil {
		f.Remedy = `correct "tls" of ` + s.Name + " (" + s.Origin.String() + ") or its files, then: everline reconnect " + typed.Argument(s.Name)
	}
	return spec, f
}

func tlsFiles(s *config.Server) tlsfiles.Files {
	return tlsfiles.Files{CA: s.TLS.CAFile, Cert: s.TLS.CertFile, Key: s.TLS.KeyFile, ServerName: s.TLS.ServerName}
}
