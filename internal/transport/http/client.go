package http

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/auth"
	"github.com/everline/everline/internal/tlsfiles"
	"github.com/everline/everline/internal/transport"
)

// Spec says which URL to reach, and how.
type Spec struct {
	// URL is http, https, or unix:///path/to.sock#/path/on/the/server.
	URL string
	// Headers are sent with every request. Those that the transport itself
	// sets (Mcp-*, MCP-Protocol-Version) and idempotency keys are left out.
	Headers map[string]string
	// Auth has the credential of each request to the origin of URL; nil: Headers
	// are all that is shown to the server.
	Auth auth.Source
	// TLS is what connections to the server need beside what the system has; nil:
	// nothing. It is not for Client.
	TLS *tlsfiles.Source
	// Client gives the round tripper, with whatever it adds (tokens, proxies).
	// Its Timeout, Jar and CheckRedirect are not used: streams live long,
	// cookies belong to one generation, and redirects follow this package's rules.
	// nil: a transport of the link's own. A round tripper may return a
	// *fault.Fault, which is passed on as it is.
	Client *http.Client
	// Wrap returns what sends the requests of the link, by way of base, which the
	// link keeps and closes; nil: base does. Errors are as Client's.
	Wrap func(base http.RoundTripper) http.RoundTripper
	// PostURL overrides the message URL that an HTTP+SSE server announces. The
	// announced query is kept where PostURL has none.
	PostURL string
	// IdleTimeout ends a standing event stream on which nothing came for so
	// long, comments included; 0: never. Streams of a call have none.
	IdleTimeout time.Duration
}

// maxHead bounds the head of an answer.
const maxHead = 1 << 20

// newTransport has no limit on the time of a whole exchange or of the
// answer's headers: calls are long, and streams have no end. What is limited
// is the time to get a connection, and how long one may be dead unnoticed.
func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dialer.DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   256,
		IdleConnTimeout:       60 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,

		MaxResponseHeaderBytes: maxHead,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}
}

// target is a parsed URL: what requests go to, and where the connection
// goes if that is a socket in the file system.
type target struct {
	url    *url.URL
	socket string // path of a unix socket; "" for the network
	user   *url.Userinfo
}

// parseTarget reads the URL of a server.
func parseTarget(raw string) (target, *fault.Fault) {
	invalid := func(text string) (target, *fault.Fault) {
		return target{}, fault.New(fault.Invalid, "open", "URL "+quote(shownURL(raw))+": "+text)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return invalid("it cannot be read as a URL")
	}
	t := target{url: u, user: u.User}
	u.User = nil
	switch strings.ToLower(u.Scheme) {
	case "http", "https":
		if u.Host == "" {
			return invalid("the host is missing")
		}
		u.Fragment, u.RawFragment = "", ""
	case "unix":
		if u.Path == "" || u.Host != "" {
			return invalid("a socket is written unix:///path/to.sock#/path")
		}
		path, query, _ := strings.Cut(u.EscapedFragment(), "?") // escaped: what is data in it stays data
		t.socket = u.Path
		if t.url, err = url.Parse("http://localhost/" + strings.TrimPrefix(path, "/")); err != nil {
			return invalid("the path behind its # cannot be read")
		}
		t.url.RawQuery = query
	default:
		return invalid("the scheme must be http, https or unix")
	}
	return t, nil
}

// shownURL is a URL as people may see it. Queries are left out, they hold
// keys and session ids.
func shownURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "that was configured"
	}
	return shown(u)
}

func shown(u *url.URL) string {
	c := *u
	c.RawQuery, c.ForceQuery = "", false
	if _, _, query := strings.Cut(c.Fragment, "?"); query { // of a unix URL
		c.Fragment, _, _ = strings.Cut(c.Fragment, "?")
		c.RawFragment = ""
	}
	return c.Redacted()
}

// tripper returns the round tripper for a target, and, if it is the link's
// own, the transport and the connections to close with the link.
func (t *target) tripper(spec *Spec) (http.RoundTripper, *http.Transport, *conns) {
	if spec.Client != nil && spec.Client.Transport != nil {
		return spec.Client.Transport, nil, nil
	}
	own, conns := newTransport(), &conns{open: map[*netConn]struct{}{}}
	if t.socket != "" {
		dialer := &net.Dialer{Timeout: 10 * time.Second}
		own.Proxy = nil
		own.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", t.socket)
		}
	}
	own.DialContext = conns.dial(own.DialContext)
	if spec.TLS != nil {
		own.TLSClientConfig, _ = spec.TLS.Config() // through a proxy, where files count as they are now; they were read to open it
		own.DialTLSContext = tlsfiles.Dial(own.DialContext, spec.TLS.Config)
	}
	return own, own, conns
}

// conns are the connections of one link. net/http closes those that are
// idle; one of HTTP/2 is not while a stream on it is still being taken down.
type conns struct {
	injector *transport.Injector

	mu     sync.Mutex // guards the rest; nothing that waits is done under it
	open   map[*netConn]struct{}
	closed bool
}

// netConn leaves the set when it is closed.
type netConn struct {
	net.Conn
	set  *conns
	cut  atomic.Bool // by the injector
	once sync.Once
	gone chan struct{} // closed by Close
}

func (c *netConn) Close() error {
	c.set.mu.Lock()
	delete(c.set.open, c)
	c.set.mu.Unlock()
	c.once.Do(func() { close(c.gone) })
	return c.Conn.Close()
}

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

func (s *conns) dial(inner dialer) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := inner(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c := &netConn{Conn: conn, set: s, gone: make(chan struct{})}
		s.mu.Lock()
		late := s.closed
		if !late {
			s.open[c] = struct{}{}
		}
		s.mu.Unlock()
		if late { // the link was closed while it was dialed
			_ = conn.Close()
			return nil, net.ErrClosed
		}
		return c, nil
	}
}

func (s *conns) close() {
	s.mu.Lock()
	s.closed = true
	open := slices.Collect(maps.Keys(s.open))
	s.mu.Unlock()
	for _, c := range open {
		_ = c.Close()
	}
}

// sameOrigin compares scheme, host and port (RFC 6454).
func sameOrigin(a, b *url.URL) bool {
	return strings.EqualFold(a.Scheme, b.Scheme) && strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b)
}

func portOf(u *url.URL) string {
	switch port := u.Port(); {
	case port != "":
		return port
	case strings.EqualFold(u.Scheme, "https"):
		return "443"
	default:
		return "80"
	}
}

// redirected returns the request that a redirect asks for, or nil where it is
// not followed: never to another origin, which must see neither the headers
// nor the message, and a POST only where it stays a POST.
func redirected(req *http.Request, resp *http.Response) *http.Request {
	keeps := resp.StatusCode == http.StatusTemporaryRedirect || resp.StatusCode == http.StatusPermanentRedirect
	moves := resp.StatusCode == http.StatusMovedPermanently || resp.StatusCode == http.StatusFound || resp.StatusCode == http.StatusSeeOther
	if !keeps && !(moves && req.Method == http.MethodGet) {
		return nil
	}
	to, err := req.URL.Parse(resp.Header.Get("Location"))
	if err != nil || resp.Header.Get("Location") == "" || !sameOrigin(req.URL, to) {
		return nil
	}
	next := req.WithContext(req.Context())
	next.URL = to
	if req.GetBody != nil {
		if next.Body, err = req.GetBody(); err != nil {
			return nil
		}
	}
	return next
}

// cookies is the cookie jar of one generation: balancers route a session by it.
type cookies struct {
	jar  *cookiejar.Jar
	used atomic.Bool // spares every request of a server without cookies the look-up
}

func newCookies() *cookies {
	jar, err := cookiejar.New(nil)
	if err != nil {
		panic("bug: cookiejar.New with no options failed: " + err.Error())
	}
	return &cookies{jar: jar}
}

// put adds the cookies for req, whose header it copies first.
func (c *cookies) put(req *http.Request) {
	if !c.used.Load() {
		return
	}
	cookies := c.jar.Cookies(req.URL)
	if len(cookies) == 0 {
		return
	}
	req.Header = req.Header.Clone()
	for _, cookie := range cookies {
		req.AddCookie(cookie)
	}
}

// take keeps the cookies that came with resp.
func (c *cookies) take(u *url.URL, resp *http.Response) {
	if len(resp.Header["Set-Cookie"]) == 0 {
		return
	}
	c.jar.SetCookies(u, resp.Cookies())
	c.used.Store(true)
}

// dialRemedy is what helps where the reason for a failed dial is known to
// have one; "" elsewhere.
func dialRemedy(err error) string {
	var (
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
		record    tls.RecordHeaderError
		remote    *net.OpError
	)
	switch {
	case errors.As(err, &authority):
		return `trust the authority of the server's certificate: name its file as "caFile" in "tls"`
	case errors.As(err, &host):
		return "use a host name that the server's certificate is for"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "renew the server's certificate, or set this machine's clock"
	case errors.As(err, &record):
		return "the server does not speak TLS there: use http:// in its URL, or its other port"
	case errors.As(err, &remote) && remoteAlert(remote):
		return `give the server the certificate that it wants: "certFile" and "keyFile" in "tls"`
	default:
		return ""
	}
}

// remoteAlert tells that the other end has refused what TLS showed it, be it in the
// handshake or, in TLS 1.3, behind it.
func remoteAlert(err *net.OpError) bool {
	inner := err
	for inner.Op != "remote error" {
		if !errors.As(inner.Err, &inner) {
			return false
		}
	}
	return true
}

// isH2 reports whether a connection speaks HTTP/2.
func isH2(conn net.Conn) bool {
	t, ok := conn.(*tls.Conn)
	return ok && t.ConnectionState().NegotiatedProtocol == "h2"
}
