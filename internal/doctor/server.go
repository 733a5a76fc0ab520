package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/auth"
	"github.com/everline/everline/internal/fleet"
	"github.com/everline/everline/internal/show"
	"github.com/everline/everline/internal/tlsfiles"
	"github.com/everline/everline/internal/typed"
)

// server makes the checks of one server, from the bottom up: what is above a
// failure would only repeat it.
func (e *examination) server(ctx context.Context, s config.Server) {
	if e.Server != "" { // else files has reported them
		e.warnings(s.Name)
		if e.Running != nil {
			e.problems(s.Name)
			e.orphans(s.Name)
		}
	}
	if s.Command != "" && !s.Disabled {
		e.arguments(s)
		e.confinement(s)
	}
	switch {
	case s.Err != nil && s.Disabled && !e.runs(s.Name):
		e.say("config", s.Name, Warn, s.Err.Remedy, "disabled, and could not be enabled: %s", s.Err.Reason())
		return
	case s.Err != nil && e.runs(s.Name):
		e.say("config", s.Name, Warn, s.Err.Remedy, "it runs, but as read here it could not: %s", s.Err.Reason())
	case s.Err != nil:
		e.say("config", s.Name, Fail, s.Err.Remedy, "%s", s.Err.Reason())
		return
	case s.Disabled:
		e.say("server", s.Name, OK, "", "disabled; not looked at")
		return
	case s.Command != "":
		if !e.command(s) {
			return
		}
	default:
		if !e.network(ctx, s) {
			return
		}
	}
	if e.Running == nil {
		e.probe(ctx, s)
		return
	}
	for _, st := range e.Running.Servers {
		if st.Name == s.Name {
			if lacksLogin(st) {
				if remedy := e.login(ctx, s); remedy != "" {
					st.Remedy = &remedy
				}
			}
			e.state(st)
			return
		}
	}
	e.say("server", s.Name, Fail, "everline reload", "the everline that runs does not know it")
}

// lacksLogin tells whether a server may be refused for what it is shown.
func lacksLogin(st admin.Server) bool {
	if st.State == event.StateAuthRequired {
		return true
	}
	return st.Auth != nil && st.Auth.State != auth.OK.String() && st.Auth.State != auth.NoCredential.String()
}

// runs reports whether the everline that runs has what this server needs: its
// environment is another one than ours, and it may have asked its user.
func (e *examination) runs(server string) bool {
	if e.Running == nil {
		return false
	}
	for _, st := range e.Running.Servers {
		if st.Name == server {
			return st.State != event.StateMisconfigured
		}
	}
	return false
}

// state reads what the everline that runs says of a server.
func (e *examination) state(st admin.Server) {
	remedy, cause := "everline logs "+typed.Argument(st.Name), ""
	if st.Remedy != nil {
		remedy = *st.Remedy
	}
	if st.AwaySince != nil {
		cause = ", away " + show.Span(time.Since(*st.AwaySince))
	}
	if st.Cause != nil {
		cause += ": " + *st.Cause
	}
	switch st.State {
	case event.StateConnected:
		version := ""
		if st.Era != nil && st.ProtocolVersion != nil {
			version = ", " + *st.Era + " " + *st.ProtocolVersion
		}
		e.add(Finding{
			Check: "server", Server: st.Name, Verdict: OK, Phases: st.Handshake,
			Text: fmt.Sprintf("connected%s, %d tools%s", version, st.Tools, phasesText(st.Handshake)),
		})
		if st.Tools+st.Prompts+st.Resources+st.Templates == 0 {
			e.say("server", st.Name, Warn, "everline logs "+typed.Argument(st.Name), "it offers nothing at all")
		}
	case event.StateIdle, event.StateDisabled, event.StateDisabling:
		e.say("server", st.Name, OK, "", "%s", st.State)
	case event.StateConnecting, event.StateReconnecting:
		e.say("server", st.Name, Warn, "everline status --wait connected "+typed.Argument(st.Name), "%s%s", st.State, cause)
	default:
		e.say("server", st.Name, Fail, remedy, "%s%s", st.State, cause)
	}
	if st.Noise > 0 {
		e.noise(st.Name, st.Noise)
	}
	for _, w := range st.Warnings {
		e.say("server", st.Name, Warn, "", "%s", w)
	}
}

// network goes the way to a URL: proxy, name, connection, TLS.
func (e *examination) network(ctx context.Context, s config.Server) bool {
	u, err := url.Parse(s.URL)
	if err != nil || u.Scheme == "unix" {
		return true // the handshake says what there is to say
	}
	request := &http.Request{URL: u}
	if proxy, err := http.ProxyFromEnvironment(request); err != nil {
		e.say("proxy", s.Name, Fail, "fix HTTP_PROXY and HTTPS_PROXY", "%v", err)
		return false
	} else if proxy != nil {
		e.say("proxy", s.Name, OK, "", "through the proxy %s", proxy.Host)
		u = proxy
	}
	ctx, cancel := context.WithTimeout(ctx, e.Timeout)
	defer cancel()
	began := time.Now()
	if net.ParseIP(u.Hostname()) == nil {
		if _, err := net.DefaultResolver.LookupHost(ctx, u.Hostname()); err != nil {
			e.say("dns", s.Name, Fail, "check the host name in \"url\", and the network", "%v", err)
			return false
		}
		e.add(Finding{Check: "dns", Server: s.Name, Verdict: OK, Text: u.Hostname() + " is known", TookMS: ms(began)})
	}
	return e.connect(ctx, s, u, u.Host != request.URL.Host)
}

func ms(since time.Time) int64 { return time.Since(since).Milliseconds() }

// soonExpired is when a certificate is worth a word.
const soonExpired = 7 * 24 * time.Hour

func (e *examination) connect(ctx context.Context, s config.Server, u *url.URL, proxied bool) bool {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	began := time.Now()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		e.say("connect", s.Name, Fail, "check that the server runs, and the port in \"url\"", "%v", err)
		return false
	}
	defer conn.Close()
	e.add(Finding{Check: "connect", Server: s.Name, Verdict: OK, Text: conn.RemoteAddr().String() + " answers", TookMS: ms(began)})
	if u.Scheme != "https" {
		return true
	}
	began = time.Now()
	conf := &tls.Config{}
	if files := fleet.Credential(&s).Files; files != (tlsfiles.Files{}) && !proxied {
		own, f := tlsfiles.Open(files, nil)
		if f != nil {
			e.say("tls", s.Name, Fail, `correct "tls" or its files`, "%s", f.Reason())
			return false
		}
		conf, _ = own.Config() // which could be read
	}
	conf.ServerName = cmp.Or(conf.ServerName, u.Hostname())
	secure := tls.Client(conn, conf)
	if err := secure.HandshakeContext(ctx); err != nil {
		remedy := "check the server's certificate"
		var unknown x509.UnknownAuthorityError
		if errors.As(err, &unknown) {
			remedy = `name the file of the authority that signed it as "caFile" in "tls"`
		}
		e.say("tls", s.Name, Fail, remedy, "%v", err)
		return false
	}
	ends := secure.ConnectionState().PeerCertificates[0].NotAfter
	if time.Until(ends) < soonExpired {
		e.say("tls", s.Name, Warn, "have the certificate renewed", "the certificate ends on %s", ends.Format(time.DateOnly))
		return true
	}
	e.add(Finding{Check: "tls", Server: s.Name, Verdict: OK, Text: "the certificate is good until " + ends.Format(time.DateOnly), TookMS: ms(began)})
	return true
}

// probe connects to a server that no everline runs, and leaves it.
func (e *examination) probe(ctx context.Context, s config.Server) {
	s.Lazy, s.Retry.Restart = false, "never"
	cfg := config.New()
	cfg.Servers = []config.Server{s}
	hub, err := everline.Open(ctx, cfg, everline.Options{
		Name: "everline-doctor", Version: e.Version, CredentialsDir: e.credentials(), CredentialsKey: e.CredentialsKey,
	})
	if err != nil {
		e.say("handshake", s.Name, Fail, "everline validate", "%v", err)
		return
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.Timeout)
		defer cancel()
		_ = hub.Close(end) // what would not end is killed
	}()
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, e.Timeout)
	defer cancel()
	began := time.Now()
	st, err := hub.Await(ctx, s.Name, 0)
	f := handshake(s, st, err, e.Timeout)
	f.Server, f.TookMS = s.Name, ms(began)
	if st.State == event.StateAuthRequired || st.Cause != nil && st.Cause.Op == fault.OpAuthorize {
		f.Remedy = cmp.Or(e.login(outer, s), f.Remedy)
	}
	e.add(f)
	if st.Noise > 0 {
		e.noise(s.Name, st.Noise)
	}
}

// handshake is what a probe came to: how long each phase took, or in which it
// ended.
func handshake(s config.Server, st everline.Status, err error, limit time.Duration) Finding {
	f := Finding{Check: "handshake", Verdict: Fail, Remedy: probeRemedy(s, st)}
	switch {
	case err == nil && st.State == event.StateConnected:
		f.Verdict, f.Text, f.Remedy = OK, "connected, "+string(st.Era)+" "+st.Version, ""
		for _, p := range st.Handshake {
			f.Phases = append(f.Phases, admin.Phase{Phase: p.Name, MS: float64(p.Took.Microseconds()) / 1000})
		}
		f.Text += phasesText(f.Phases)
	case st.Cause != nil:
		f.Text = st.Cause.Reason()
		if st.Cause.Op != "" {
			f.Text = "in the phase " + st.Cause.Op + ": " + f.Text
		}
		if len(st.Cause.Stderr) > 0 {
			f.Text += "; its last words: " + st.Cause.Stderr[len(st.Cause.Stderr)-1]
		}
	case err != nil:
		f.Text = "no answer within " + limit.String()
	default:
		f.Text = "it is " + string(st.State)
	}
	return f
}

// probeRemedy is what helps where a probe has failed. Nobody keeps the logs of a
// server that runs only for a probe, so it has to be run by hand.
func probeRemedy(s config.Server, st everline.Status) string {
	switch {
	case st.Cause != nil && st.Cause.Remedy != "":
		return st.Cause.Remedy
	case st.Noise > 0:
		return noiseRemedy
	case st.Cause == nil:
		return `if it is still downloading, try again with a longer --timeout; else raise "startupTimeout"`
	case s.Command == "" && st.Remedy != "" && !strings.HasPrefix(st.Remedy, "everline "): // which needs one that runs
		return st.Remedy
	case s.Command == "":
		return `check "url", and look into the server's own log`
	case st.Cause.Kind == fault.Spawn:
		return `check "command": it is there, but this machine cannot run it`
	default:
		return "run it by hand and read what it says: " + shellWords(append([]string{s.Command}, s.Args...))
	}
}

// shellWords is a command as it is typed into a shell.
func shellWords(words []string) string {
	typed := make([]string, len(words))
	for i, w := range words {
		if typed[i] = w; w == "" || strings.ContainsAny(w, " \t\n\"'\\$`&|;<>(){}[]*?!#~") {
			typed[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(typed, " ")
}

// phasesText reads ": spawn 4 ms, first byte 310 ms, ...".
func phasesText(phases []admin.Phase) string {
	text := ""
	for i, p := range phases {
		text += [...]string{": ", ", "}[min(i, 1)] + fmt.Sprintf("%s %.0f ms", p.Phase, p.MS)
	}
	return text
}

const noiseRemedy = "make the server log to stderr, and write nothing but messages of MCP to stdout"

func (e *examination) noise(server string, lines uint64) {
	e.say("noise", server, Warn, noiseRemedy, "%d lines on its stdout were no messages", lines)
}
