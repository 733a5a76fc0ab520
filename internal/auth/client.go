package auth

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/everline/everline/internal/tlsfiles"
)

const (
	webLimit   = 10 * time.Second
	webMaxBody = 1 << 20
	webMaxHops = 3
	maxRetry   = 5 * time.Minute
	formType   = "application/x-www-form-urlencoded"
)

// A Dialer connects to an address. It asks whether the resolved address is
// allowed before anything is sent there.
type Dialer func(ctx context.Context, network, addr string, allow func(netip.Addr) error) (net.Conn, error)

// A Resolver returns the addresses of a host.
type Resolver func(ctx context.Context, host string) ([]netip.Addr, error)

func systemDial(ctx context.Context, network, addr string, allow func(netip.Addr) error) (net.Conn, error) {
	d := net.Dialer{Timeout: webLimit, Control: func(_, resolved string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(resolved)
		if err != nil {
			return err
		}
		return allow(ap.Addr())
	}}
	return d.DialContext(ctx, network, addr)
}

func systemResolve(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// web makes the requests that a server or an issuer causes by what it names.
// Every URL is taken for hostile: addresses are judged after they are resolved,
// redirects are few, and nothing that carries a secret follows one.
type web struct {
	server       *url.URL
	allowPrivate *bool
	dial         Dialer
	resolve      Resolver
	proxy        func(*http.Request) (*url.URL, error)
	warn         func(string)

	own, others, proxied *http.Transport
	client               *http.Client
	warnProxy            sync.Once
}

// newWeb makes a client; dial and resolve may be nil.
func newWeb(spec *Spec, dial Dialer, resolve Resolver, warn func(string)) (*web, error) {
	server, err := url.Parse(spec.URL)
	if err != nil {
		return nil, errors.New("its URL cannot be read")
	}
	w := &web{server: server, allowPrivate: spec.AllowPrivate, dial: dial, resolve: resolve, proxy: http.ProxyFromEnvironment, warn: warn}
	if w.dial == nil {
		w.dial = systemDial
	} else {
		w.proxy = nil // whoever dials decides about proxies
	}
	if w.resolve == nil {
		w.resolve = systemResolve
	}
	given := func() (*tls.Config, error) { return spec.TLS.Clone(), nil }
	own, others := given, given
	if spec.Files != (tlsfiles.Files{}) {
		files := tlsfiles.New(spec.Files, warn)
		if own, others = files.Config, files.Others; spec.provider {
			own = others // what proves who we are is for the server alone
		}
	}
	w.own, w.others, w.proxied = w.transport(own), w.transport(others), w.transport(others)
	w.proxied.Proxy, w.proxied.DialContext, w.proxied.DialTLSContext = w.proxy, nil, nil
	w.client = &http.Client{Transport: w, CheckRedirect: w.redirect}
	return w, nil
}

func (w *web) transport(conf func() (*tls.Config, error)) *http.Transport {
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		return w.dial(ctx, network, addr, func(ip netip.Addr) error { return w.allow(ctx, ip) })
	}
	t := &http.Transport{
		TLSHandshakeTimeout: webLimit, MaxResponseHeaderBytes: 64 << 10,
		DisableKeepAlives: true, // requests are hours apart
		ForceAttemptHTTP2: true,
		DialContext:       dial,
	}
	if c, err := conf(); c != nil || err != nil {
		t.TLSClientConfig = c // through a proxy
		t.DialTLSContext = tlsfiles.Dial(dial, conf)
	}
	return t
}

// RoundTrip sends a request directly, or through a proxy, where only names can
// be judged.
func (w *web) RoundTrip(req *http.Request) (*http.Response, error) {
	if w.proxy != nil {
		if proxy, err := w.proxy(req); err == nil && proxy != nil {
			w.warnProxy.Do(func() { w.warn("a proxy is used for logins: the addresses that servers name are judged by name alone") })
			if err := w.allowName(req.Context(), req.URL.Hostname()); err != nil {
				return nil, err
			}
			return w.proxied.RoundTrip(req)
		}
	}
	if origin(req.URL) == origin(w.server) {
		return w.own.RoundTrip(req)
	}
	return w.others.RoundTrip(req)
}

// redirect follows a few redirects of questions, and none of what carries a
// secret: the answer is then the redirect itself, which is no answer.
func (w *web) redirect(req *http.Request, via []*http.Request) error {
	switch last := via[len(via)-1]; {
	case via[0].Method != http.MethodGet:
		return http.ErrUseLastResponse
	case len(via) > webMaxHops:
		return errors.New("it redirects too often")
	case last.URL.Scheme == "https" && req.URL.Scheme != "https":
		return errors.New("it redirects from https to " + strconv.Quote(req.URL.Scheme))
	default:
		return nil
	}
}

// A blocked address is one that nothing is sent to.
type blocked struct{ addr string }

func (b *blocked) Error() string {
	return b.addr + " is not a public address, and the server's own is; if that is meant, set \"allowPrivate\": true"
}

func (w *web) allow(ctx context.Context, ip netip.Addr) error {
	ip = plainAddr(ip)
	switch {
	case w.allowPrivate != nil && *w.allowPrivate:
		return nil
	case public(ip):
		return nil
	case w.allowPrivate != nil, ip.IsLinkLocalUnicast(), ip.IsMulticast(), metadataAddr[ip]:
		return &blocked{ip.String()}
	case w.serverPrivate(ctx):
		return nil
	default:
		return &blocked{ip.String()}
	}
}

func (w *web) allowName(ctx context.Context, host string) error {
	if ip, err := netip.ParseAddr(host); err == nil {
		return w.allow(ctx, ip)
	}
	if loopbackHost(host) {
		return w.allow(ctx, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	}
	return nil
}

// serverPrivate tells whether the configured server is not public itself.
func (w *web) serverPrivate(ctx context.Context) bool {
	host := w.server.Hostname()
	if host == "" || loopbackHost(host) {
		return true
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return !public(plainAddr(ip))
	}
	all, err := w.resolve(ctx, host)
	if err != nil || len(all) == 0 {
		return false
	}
	for _, ip := range all {
		if public(plainAddr(ip)) {
			return false
		}
	}
	return true
}

func loopbackHost(host string) bool {
	host = strings.ToLower(host)
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && plainAddr(ip).IsLoopback()
}

// plainAddr is the IPv4 address within an IPv6 one, where there is one.
func plainAddr(ip netip.Addr) netip.Addr {
	ip = ip.WithZone("").Unmap()
	if nat64.Contains(ip) {
		b := ip.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return ip
}

var (
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
	// notPublic is what net/netip has no name for.
	notPublic = []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
		netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("fec0::/10"),
		netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"),
	}
	// metadataAddr are those of clouds that are not link-local.
	metadataAddr = map[netip.Addr]bool{netip.MustParseAddr("fd00:ec2::254"): true, netip.MustParseAddr("100.100.100.200"): true}
)

func public(ip netip.Addr) bool {
	if !ip.IsGlobalUnicast() || ip.IsPrivate() {
		return false
	}
	for _, p := range notPublic {
		if p.Contains(ip) {
			return false
		}
	}
	return true
}

// checkEndpoint judges a URL to which a person's browser or a secret is to go.
func (w *web) checkEndpoint(name, raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Opaque != "":
		return fmt.Errorf("its %s is no usable URL", name)
	case u.Scheme == "https":
		return nil
	case u.Scheme != "http":
		return fmt.Errorf("its %s has the scheme %q, and must have https", name, u.Scheme)
	case w.allowPrivate != nil && *w.allowPrivate, loopbackHost(u.Hostname()) && loopbackHost(w.server.Hostname()):
		return nil
	default:
		return fmt.Errorf("its %s is not https", name)
	}
}

// A reply is an answer of any status.
type reply struct {
	status int
	json   bool // it says that it is JSON
	body   []byte
	after  time.Duration // of Retry-After; 0 if there is none
}

func (w *web) get(ctx context.Context, u string) (*reply, error) {
	return w.do(ctx, http.MethodGet, u, "", nil, nil)
}

// post sends what may be a secret. headers may be nil.
func (w *web) post(ctx context.Context, u, kind, body string, headers http.Header) (*reply, error) {
	return w.do(ctx, http.MethodPost, u, kind, strings.NewReader(body), headers)
}

// knock posts a message and reads no more of the answer than its head: the rest
// may be a stream.
func (w *web) knock(ctx context.Context, u, message string) (status int, challenge []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, webLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u, strings.NewReader(message))
	if err != nil {
		return 0, nil, errors.New("it is no usable URL")
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Content-Type", "application/json")
	resp, err := w.client.Do(req)
	if err != nil {
		return 0, nil, bare(err)
	}
	_ = resp.Body.Close() // nothing of it is wanted
	return resp.StatusCode, resp.Header["Www-Authenticate"], nil
}

func (w *web) do(ctx context.Context, method, u, kind string, body io.Reader, headers http.Header) (*reply, error) {
	ctx, cancel := context.WithTimeout(ctx, webLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, u, body)
	if err != nil {
		return nil, errors.New("it is no usable URL")
	}
	for name, values := range headers {
		req.Header[name] = values
	}
	req.Header.Set("Accept", "application/json")
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return nil, bare(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, webMaxBody+1))
	if err == nil && len(text) > webMaxBody {
		err = errors.New("the answer is larger than 1 MiB")
	}
	if err != nil {
		return nil, bare(err)
	}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return &reply{
		status: resp.StatusCode, body: text, after: retryAfter(resp.Header.Get("Retry-After")),
		json: media == "application/json" || strings.HasSuffix(media, "+json"),
	}, nil
}

// bare is an error without the URL that net/http puts before it: whoever reports
// it names the URL in a form that may be shown.
func bare(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

func retryAfter(text string) time.Duration {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 {
		return min(time.Duration(min(n, 1<<30))*time.Second, maxRetry)
	}
	if t, err := http.ParseTime(text); err == nil {
		return max(0, min(time.Until(t), maxRetry))
	}
	return 0
}

// object decodes a body that must be a JSON object.
func (r *reply) object(to any) error {
	if err := json.Unmarshal(r.body, to); err != nil {
		return errors.New("it is no JSON object as expected")
	}
	return nil
}

// shownURL is a URL as people may see it: queries may hold secrets.
func shownURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "an unreadable URL"
	}
	u.RawQuery, u.Fragment, u.ForceQuery = "", "", false
	return u.Redacted()
}
