//go:build unix

package daemon

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/access"
)

func TestMayServe(t *testing.T) {
	t.Parallel()
	demanded, crypted := func(c *config.Config) { c.Access = config.Access{Demanded: true, Tokens: true} }, func(c *config.Config) { c.TLS.CertFile = "x" }
	proxied := func(c *config.Config) { c.TLSTerminatedBy = config.TLSByProxy }
	for _, c := range []struct {
		address string
		anybody bool
		change  []func(*config.Config)
		says    string // "" if it may
	}{
		{"127.0.0.1:0", false, nil, ""},
		{"localhost:1", false, nil, ""},
		{"[::1]:7433", false, nil, ""},
		{"127.9.9.9:80", false, nil, ""},
		{"0.0.0.0:1", false, nil, "--allow-unauthenticated"},
		{":1", false, nil, "everline token create"},
		{"[::]:1", false, nil, "--allow-unauthenticated"},
		{"10.0.0.1:1", false, []func(*config.Config){crypted}, "--allow-unauthenticated"},
		{"example.com:1", false, nil, "--allow-unauthenticated"},
		{"0.0.0.0:1", true, nil, ""},
		{"0.0.0.0:1", false, []func(*config.Config){demanded}, "tlsTerminatedBy"},
		{"0.0.0.0:1", true, []func(*config.Config){demanded}, "tlsTerminatedBy"},
		{"0.0.0.0:1", false, []func(*config.Config){demanded, crypted}, ""},
		{"0.0.0.0:1", false, []func(*config.Config){demanded, proxied}, ""},
		{"127.0.0.1:1", false, []func(*config.Config){demanded}, ""},
		{"127.0.0.1:1", false, []func(*config.Config){func(c *config.Config) { c.Clients = config.ClientsTokens }}, `"tokens": true`},
		{"127.0.0.1:1", false, []func(*config.Config){demanded, func(c *config.Config) { c.Access.MTLS = config.CertCN }}, "clientCAFile"},
	} {
		cfg := config.New()
		for _, change := range c.change {
			change(cfg)
		}
		f := MayServe(cfg, c.address, c.anybody)
		if (f == nil) != (c.says == "") || f != nil && (f.Kind != fault.Invalid || !strings.Contains(f.Remedy, c.says)) {
			t.Errorf("%+v: %v", c, f)
		}
	}
}

// certify writes a certificate for 127.0.0.1 with a common name, and its key.
func certify(t *testing.T, dir, name string) config.TLS {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	files := config.TLS{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	for path, block := range map[string]*pem.Block{files.CertFile: {Type: "CERTIFICATE", Bytes: der}, files.KeyFile: {Type: "PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func forgotten([]byte) error { return nil }

// TestCertificatesAreReadAgain when they change, and what cannot be used is not.
func TestCertificatesAreReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := certify(t, dir, "one")
	c, err := newCertificates(func() config.TLS { return files }, forgotten, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	served := func() string {
		c.looked = time.Time{}
		cert, err := x509.ParseCertificate(c.current().Certificates[0].Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return cert.Subject.CommonName
	}
	later := func() {
		at := time.Now().Add(time.Minute)
		if err := os.Chtimes(files.CertFile, at, at); err != nil {
			t.Fatal(err)
		}
	}
	certify(t, dir, "two")
	later()
	if got := served(); got != "two" {
		t.Errorf("the endpoint shows %s", got)
	}
	if err := os.WriteFile(files.CertFile, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := served(); got != "two" {
		t.Errorf("with half a file the endpoint shows %s", got)
	}
	certify(t, dir, "three")
	if got := served(); got != "three" {
		t.Errorf("the endpoint shows %s", got)
	}
	if _, err := newCertificates(func() config.TLS { return config.TLS{CertFile: "none", KeyFile: "none"} }, forgotten, slog.New(slog.DiscardHandler)); fault.KindOf(err) != fault.Invalid {
		t.Errorf("files that are not there: %v", err)
	}
}

// TestOwnWay reaches the everline of the state folder over TLS, whatever name its
// certificate is for and whatever it is renewed to, and nobody else in its place.
func TestOwnWay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := &daemon{parts: parts{stateDir: dir}}
	files := certify(t, dir, "gw.example.com")
	certs, err := newCertificates(func() config.TLS { return files }, d.keepCertificate, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "local.token"), []byte("evl_00000000_"+strings.Repeat("x", 43)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get("Authorization") == "" || r.Host != "localhost" || string(body) != "asked" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	srv.TLS = certs.config()
	srv.StartTLS()
	defer srv.Close()
	way := NewOwnWay(dir)
	defer way.Close()
	ask := func() (int, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, strings.NewReader("asked"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := way.RoundTrip(req)
		if err != nil {
			return 0, err
		}
		_ = resp.Body.Close()
		way.Close() // each time a connection of its own
		return resp.StatusCode, nil
	}
	if code, err := ask(); code != http.StatusOK {
		t.Errorf("at first: %d, %v", code, err)
	}
	certify(t, dir, "other.example.com")
	at := time.Now().Add(time.Minute)
	if err := os.Chtimes(files.CertFile, at, at); err != nil {
		t.Fatal(err)
	}
	certs.mu.Lock()
	certs.looked = time.Time{}
	certs.mu.Unlock()
	if code, err := ask(); code != http.StatusOK {
		t.Errorf("with a renewed certificate: %d, %v", code, err)
	}
	if err := d.keepCertificate([]byte("another")); err != nil {
		t.Fatal(err)
	}
	var dial *net.OpError
	if code, err := ask(); code != 0 || !errors.As(err, &dial) || dial.Op != "dial" {
		t.Errorf("somebody else in its place: %d, %v", code, err)
	}
}

// TestOverTLS is who a certificate names, and whose the connection below it is.
func TestOverTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := certify(t, dir, "ci")
	files.ClientCAFile = files.CertFile
	certs, err := newCertificates(func() config.TLS { return files }, forgotten, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	users := withUsers(inner, func() config.Clients { return config.ClientsAnyLocal }, slog.New(slog.DiscardHandler))
	users.uidOf = func(net.Conn) (int, bool) { return 4711, true }
	type seen struct{ user, cert string }
	got := make(chan seen, 1)
	srv := &http.Server{ConnContext: identified, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		s := seen{user: access.From(r.Context()).Key()}
		if len(r.TLS.VerifiedChains) > 0 {
			s.cert = r.TLS.VerifiedChains[0][0].Subject.CommonName
		}
		got <- s
	})}
	done := make(chan struct{})
	go func() { // ends with Close
		defer close(done)
		_ = srv.Serve(tls.NewListener(users, certs.config()))
	}()
	defer func() { _ = srv.Close(); <-done }()
	pair, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	text, _ := os.ReadFile(files.CertFile)
	roots.AppendCertsFromPEM(text)
	for _, shown := range [][]tls.Certificate{nil, {pair}} {
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: shown}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+inner.Addr().String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		want := seen{user: "uid:4711"}
		if shown != nil {
			want.cert = "ci"
		}
		if s := <-got; s != want || resp.Proto != "HTTP/1.1" {
			t.Errorf("%+v over %s, want %+v", s, resp.Proto, want)
		}
		tr.CloseIdleConnections()
	}
}

func TestListenUnix(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "everline-") // a short path
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "run", "s")
	open := func() (net.Listener, error) { return listenUnix(context.Background(), path) }
	l, err := open()
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if _, err := open(); fault.KindOf(err) != fault.Conflict {
		t.Errorf("a socket that is served is taken: %v", err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = l.Close()
	if l, err = open(); err != nil {
		t.Fatalf("a socket that nobody serves stays: %v", err)
	}
	_ = l.Close()
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := open(); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a file is replaced: %v", err)
	}
	if err := os.Chmod(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := open(); fault.KindOf(err) != fault.Invalid {
		t.Errorf("in a folder of others: %v", err)
	}
}
