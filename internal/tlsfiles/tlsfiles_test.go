package tlsfiles_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/tlsfiles"
)

// An authority signs what tests need.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	a.cert, a.key = a.sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

func (a *authority) sign(template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber, template.NotBefore = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// pair is a certificate for a name or address, and its key, as files have them.
func (a *authority) pair(name string, until time.Time) (cert, key []byte) {
	template := &x509.Certificate{Subject: pkix.Name{CommonName: name}, NotAfter: until, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{name}
	}
	c, k := a.sign(template)
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

func write(t *testing.T, path string, text []byte, minute int) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(time.Duration(minute) * time.Minute) // two writes in one tick of the file system's clock
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

// site is a server of a name that wants a certificate of the authority, and answers
// with whose it got and by which protocol.
func site(t *testing.T, a *authority, name string) *httptest.Server {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.TLS.PeerCertificates[0].Subject.CommonName+" "+r.Proto)
	}))
	cert, key := a.pair(name, time.Time{})
	own, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func ask(t *testing.T, conf func() (*tls.Config, error), url string) (string, error) {
	t.Helper()
	var d net.Dialer
	tr := &http.Transport{DialTLSContext: tlsfiles.Dial(d.DialContext, conf), ForceAttemptHTTP2: true}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr}).Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// Files are read at the start, and again once they have changed; what they prove is
// for the server alone.
func TestFilesAreReadAgain(t *testing.T) {
	first, second, dir := newAuthority(t), newAuthority(t), t.TempDir()
	f := tlsfiles.Files{CA: filepath.Join(dir, "ca"), Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key")}
	install := func(a *authority, name string, minute int) {
		cert, key := a.pair(name, time.Time{})
		write(t, f.CA, a.pem(), minute)
		write(t, f.Cert, cert, minute)
		write(t, f.Key, key, minute)
	}
	install(first, "one", 1)
	var warned []string
	s, fl := tlsfiles.Open(f, func(text string) { warned = append(warned, text) })
	if fl != nil {
		t.Fatal(fl)
	}
	old, next := site(t, first, "127.0.0.1"), site(t, second, "127.0.0.1")
	if got, err := ask(t, s.Config, old.URL); got != "one HTTP/2.0" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := ask(t, s.Config, next.URL); err == nil {
		t.Error("a server of another authority is believed")
	}
	if got, err := ask(t, s.Others, old.URL); err == nil {
		t.Errorf("others see who we are: %q", got)
	}
	install(second, "two", 2)
	if got, err := ask(t, s.Config, next.URL); got != "two HTTP/2.0" {
		t.Errorf("%q, %v", got, err)
	}
	write(t, f.Key, []byte("half a fi"), 3) // somebody is writing it
	for range 3 {
		if got, err := ask(t, s.Config, next.URL); got != "two HTTP/2.0" {
			t.Errorf("%q, %v", got, err)
		}
	}
	if len(warned) != 1 || !strings.Contains(warned[0], f.Key) {
		t.Errorf("%q", warned)
	}
}

// The certificate must be for the name that is configured, else for the host.
func TestServerName(t *testing.T) {
	a, dir := newAuthority(t), t.TempDir()
	cert, key := a.pair("me", time.Time{})
	f := tlsfiles.Files{CA: filepath.Join(dir, "ca"), Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key")}
	write(t, f.CA, a.pem(), 1)
	write(t, f.Cert, cert, 1)
	write(t, f.Key, key, 1)
	s := site(t, a, "inside.example")
	for name, good := range map[string]bool{"": false, "inside.example": true, "other.example": false} {
		f.ServerName = name
		src, fl := tlsfiles.Open(f, nil)
		if fl != nil {
			t.Fatal(fl)
		}
		if _, err := ask(t, src.Config, s.URL); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// What cannot be used is told with the key and the file.
func TestFilesThatCannotBeUsed(t *testing.T) {
	a, dir := newAuthority(t), t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	cert, key := a.pair("me", time.Time{})
	_, otherKey := a.pair("else", time.Time{})
	over, overKey := a.pair("me", time.Now().Add(-time.Minute))
	for name, text := range map[string][]byte{"ca": a.pem(), "cert": cert, "key": key, "otherkey": otherKey, "over": over, "overkey": overKey, "none": []byte("x"), "large": make([]byte, 1<<20+1)} {
		write(t, path(name), text, 1)
	}
	for want, f := range map[string]tlsfiles.Files{
		"tls.caFile " + path("gone") + ": no such file":            {CA: path("gone")},
		"tls.caFile " + path("none") + ": there is no":             {CA: path("none")},
		"tls.caFile " + path("large") + ": it is larger":           {CA: path("large")},
		"tls.keyFile " + path("gone"):                              {Cert: path("cert"), Key: path("gone")},
		"tls.certFile " + path("none"):                             {Cert: path("none"), Key: path("key")},
		"tls.keyFile " + path("otherkey") + ": tls: priv":          {Cert: path("cert"), Key: path("otherkey")},
		"tls.certFile " + path("over") + ": the certificate ended": {Cert: path("over"), Key: path("overkey")},
	} {
		_, f := tlsfiles.Open(f, nil)
		if f == nil || f.Kind != fault.Invalid || !strings.Contains(f.Error(), want) || strings.Contains(f.Error(), "PRIVATE") {
			t.Errorf("%v, want %q", f, want)
		}
	}
}

// A handshake that nobody answers ends with whoever waits for it.
func TestHandshakeIsBounded(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { // ends with the pipe
		_, _ = there.Read(make([]byte, 1))
		cancel()
	}()
	dial := tlsfiles.Dial(func(context.Context, string, string) (net.Conn, error) { return here, nil }, func() (*tls.Config, error) { return &tls.Config{}, nil })
	if _, err := dial(ctx, "tcp", "a.example:443"); err == nil {
		t.Error("a handshake without an answer succeeds")
	}
	if _, err := here.Write([]byte("x")); err == nil {
		t.Error("the connection is left open")
	}
}
