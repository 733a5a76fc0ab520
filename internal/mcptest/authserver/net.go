// Package authserver is a scripted authorization server, the server that it
// guards, and a network in memory that works in a bubble of testing/synctest. It
// is for tests, and secure against nothing.
package authserver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A Net has hosts by name, with an address each. Port 443 is TLS.
type Net struct {
	mu     sync.Mutex // guards the rest
	hosts  map[string]*host
	addrs  map[string][]netip.Addr // by name
	dialed []string                // addresses that a connection was made to
	closed bool
	ended  sync.WaitGroup
	cert   *tls.Certificate
	roots  *x509.CertPool
}

type host struct {
	server *http.Server
	conns  chan net.Conn
	down   error
}

// NewNet returns a network without hosts. Close ends it.
func NewNet() *Net {
	return &Net{hosts: map[string]*host{}, addrs: map[string][]netip.Addr{}}
}

// Serve puts a handler at "name:port", with the address that the name has. A
// name may have several addresses, one for each call.
func (n *Net) Serve(addr, ip string, h http.Handler) {
	name, port, err := net.SplitHostPort(addr)
	if err != nil {
		panic("bug: " + err.Error())
	}
	one := &host{conns: make(chan net.Conn), server: &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}}
	if port == "443" {
		one.server.TLSConfig = n.tlsConfig()
	}
	n.mu.Lock()
	n.hosts[addr] = one
	n.addrs[name] = append(n.addrs[name], netip.MustParseAddr(ip))
	n.mu.Unlock()
	n.ended.Go(func() { // ends with Close
		l := &listener{conns: one.conns, addr: addr, done: make(chan struct{})}
		if port == "443" {
			_ = one.server.ServeTLS(l, "", "")
		} else {
			_ = one.server.Serve(l)
		}
	})
}

// Down makes a host refuse connections; Up ends that.
func (n *Net) Down(addr string) { n.setDown(addr, syscall.ECONNREFUSED) }

// Up ends Down.
func (n *Net) Up(addr string) { n.setDown(addr, nil) }

func (n *Net) setDown(addr string, err error) {
	n.mu.Lock()
	n.hosts[addr].down = err
	n.mu.Unlock()
}

// Rename gives a name other addresses, as a DNS that is hostile does.
func (n *Net) Rename(name string, ips ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addrs[name] = nil
	for _, ip := range ips {
		n.addrs[name] = append(n.addrs[name], netip.MustParseAddr(ip))
	}
}

// Resolve returns the addresses of a name.
func (n *Net) Resolve(_ context.Context, name string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if all := n.addrs[name]; len(all) > 0 {
		return all, nil
	}
	if ip, err := netip.ParseAddr(name); err == nil {
		return []netip.Addr{ip}, nil
	}
	return nil, errors.New("no such host: " + name)
}

// Dial connects to a host, if its address is allowed.
func (n *Net) Dial(ctx context.Context, _, addr string, allow func(netip.Addr) error) (net.Conn, error) {
	name, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	all, err := n.Resolve(ctx, name)
	if err != nil {
		return nil, err
	}
	for _, ip := range all[:1] {
		if err := allow(ip); err != nil {
			return nil, err
		}
	}
	n.mu.Lock()
	one := n.hosts[addr]
	n.dialed = append(n.dialed, addr)
	var down error = syscall.ECONNREFUSED
	if one != nil && !n.closed {
		down = one.down
	}
	n.mu.Unlock()
	if down != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: down}
	}
	ours, theirs := pipe(addr)
	select {
	case one.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Dialed are the addresses that connections were made to, or refused by.
func (n *Net) Dialed() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.dialed...)
}

// Client is a browser: it follows redirects to wherever they lead.
func (n *Net) Client() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: n.ClientTLS(),
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return n.Dial(ctx, network, addr, func(netip.Addr) error { return nil })
		},
	}}
}

// ClientTLS trusts the hosts of this network.
func (n *Net) ClientTLS() *tls.Config {
	n.tlsConfig()
	return &tls.Config{RootCAs: n.roots}
}

// Close ends every host and connection.
func (n *Net) Close() {
	n.mu.Lock()
	n.closed = true
	all := n.hosts
	n.mu.Unlock()
	for _, one := range all {
		_ = one.server.Close()
	}
	n.ended.Wait()
}

type listener struct {
	conns chan net.Conn
	addr  string
	once  sync.Once
	done  chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *listener) Addr() net.Addr { return name(l.addr) }

type name string

func (name) Network() string  { return "memory" }
func (n name) String() string { return string(n) }

// tlsConfig has one certificate for every name that ends in .test.
func (n *Net) tlsConfig() *tls.Config {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cert == nil {
		cert, root, err := selfSigned()
		if err != nil {
			panic(fmt.Sprintf("bug: %v", err))
		}
		n.cert, n.roots = cert, x509.NewCertPool()
		n.roots.AddCert(root)
	}
	return &tls.Config{Certificates: []tls.Certificate{*n.cert}, NextProtos: []string{"http/1.1"}}
}

func selfSigned() (*tls.Certificate, *x509.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	names := []string{"*.test", "*.as.test", "*.mcp.test"}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authserver"}, DNSNames: names,
		NotBefore: time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2199, 1, 1, 0, 0, 0, 0, time.UTC),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, nil, err
	}
	root, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, root, nil
}

// hostOf is the address that a URL leads to.
func hostOf(scheme, host string) string {
	if strings.Contains(host, ":") {
		return host
	}
	if scheme == "https" {
		return host + ":443"
	}
	return host + ":80"
}
