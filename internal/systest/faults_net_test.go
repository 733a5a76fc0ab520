package systest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcptest"
)

// failing waits for a server's first attempt to fail and returns why it did.
func failing(t *testing.T, server map[string]any) *fault.Fault {
	t.Helper()
	hub := open(t, servers{"a": with(server, map[string]any{"retry": map[string]any{"fastFor": "1ms", "firstDelay": "5ms"}})}, everline.Options{})
	st, err := hub.Await(within(t), "a", 0)
	if err != nil || st.Cause == nil || st.State == "connected" {
		t.Fatalf("%+v, %v", st, err)
	}
	return st.Cause
}

// A server behind a socket in the file system.
func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := mcptest.New(mcptest.Config{})
	srv := httptest.NewUnstartedServer(s.Handler())
	srv.Listener.Close()
	srv.Listener = listener
	srv.Start()
	t.Cleanup(func() { s.Close(); srv.Close() })
	hub := open(t, servers{"a": {"type": "http", "url": "unix://" + path + "#/mcp"}}, everline.Options{})
	ready(t, hub, "a", 0)
	together(t, hub, 10, "over the socket", s)
}

// What is wrong with a TLS connection is named, with what can be done.
func TestTLSErrorsAreNamed(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	secure := httptest.NewUnstartedServer(s.Handler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(func() { s.Close(); secure.Close() })
	f := failing(t, map[string]any{"type": "http", "url": secure.URL + "/mcp"})
	if f.Kind != fault.Dial || !strings.Contains(f.Error(), "certificate") || !strings.Contains(f.Remedy, "caFile") {
		t.Errorf("an unknown authority: %v, remedy %q", f, f.Remedy)
	}
	plain := mcptest.Web(t, mcptest.New(mcptest.Config{}))
	f = failing(t, map[string]any{"type": "http", "url": "https" + strings.TrimPrefix(plain.URL, "http") + "/mcp"})
	if f.Kind != fault.Dial || !strings.Contains(f.Remedy, "http://") {
		t.Errorf("no TLS at all: %v, remedy %q", f, f.Remedy)
	}
}

// A server with an authority of its own, that wants a certificate of everline: what
// is missing is named with its file, and what has changed counts from the next
// connection on.
func TestTLSOfAServer(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	secure := httptest.NewUnstartedServer(s.Handler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	secure.StartTLS()
	t.Cleanup(func() { s.Close(); secure.Close() })
	dir := t.TempDir()
	write := func(name, kind string, der []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key, err := x509.MarshalPKCS8PrivateKey(secure.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	write("ca.pem", "CERTIFICATE", secure.Certificate().Raw)
	write("key.pem", "PRIVATE KEY", key)
	at := func(files map[string]string) map[string]any {
		full := map[string]string{}
		for name, file := range files {
			full[name] = filepath.Join(dir, file)
		}
		return map[string]any{"type": "http", "url": secure.URL + "/mcp", "everline": map[string]any{"tls": full}}
	}
	f := failing(t, at(map[string]string{"caFile": "ca.pem"}))
	if !strings.Contains(f.Error(), "certificate required") || !strings.Contains(f.Remedy, `"certFile" and "keyFile"`) {
		t.Errorf("without a certificate: %v, remedy %q", f, f.Remedy)
	}
	hub := open(t, servers{"a": at(map[string]string{"caFile": "ca.pem", "certFile": "cert.pem", "keyFile": "key.pem"})}, everline.Options{})
	st, err := hub.Await(within(t), "a", 0)
	if err != nil || st.State != event.StateMisconfigured || !strings.Contains(st.Cause.Error(), "tls.certFile "+filepath.Join(dir, "cert.pem")) || !strings.Contains(st.Remedy, "everline reconnect a") {
		t.Fatalf("%+v, %v", st, err)
	}
	write("cert.pem", "CERTIFICATE", secure.Certificate().Raw)
	if err := hub.Reconnect(within(t), "a"); err != nil {
		t.Fatal(err)
	}
	ready(t, hub, "a", 0)
	together(t, hub, 5, "over TLS", s)
}

// A name that cannot be resolved is a failed dial like any other, and says so.
func TestUnknownHostIsNamed(t *testing.T) {
	f := failing(t, map[string]any{"type": "http", "url": "http://no-such-host.invalid/mcp"})
	if f.Kind != fault.Dial || f.Outcome != fault.NotSent || !strings.Contains(f.Error(), "no-such-host.invalid") {
		t.Errorf("%v", f)
	}
}

// Redirects are followed on the same origin alone: nobody else sees the
// headers that were configured, or a message.
func TestRedirectsKeepCredentialsHome(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	var strange atomic.Int64
	elsewhere := serveAt(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		strange.Add(1)
		w.WriteHeader(http.StatusNotFound)
	}))
	home := serveAt(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/mcp", http.StatusPermanentRedirect)
		case "/away":
			http.Redirect(w, r, "http://"+elsewhere.addr+"/mcp", http.StatusPermanentRedirect)
		default:
			if r.Header.Get("Authorization") != "Bearer secret-token" {
				http.Error(w, "no", http.StatusForbidden)
				return
			}
			s.Handler().ServeHTTP(w, r)
		}
	}))
	at := func(path string) map[string]any {
		return map[string]any{
			"type": "http", "url": "http://" + home.addr + path,
			"headers": map[string]string{"Authorization": "Bearer secret-token"},
		}
	}
	hub := open(t, servers{"a": at("/moved")}, everline.Options{})
	ready(t, hub, "a", 0)
	together(t, hub, 5, "behind a redirect", s)
	f := failing(t, at("/away"))
	if f.Status != http.StatusPermanentRedirect || f.Remedy == "" || strange.Load() != 0 {
		t.Errorf("%v, remedy %q; %d requests elsewhere", f, f.Remedy, strange.Load())
	}
}

// A server that sends its answer's head byte by byte, or without end, or a
// body without end, costs one call its deadline and nobody else anything.
func TestSlowAndEndlessAnswers(t *testing.T) {
	trickle := func(first string) func(net.Conn) {
		return func(conn net.Conn) {
			_, _ = io.WriteString(conn, first)
			for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
				if _, err := io.WriteString(conn, "x"); err != nil {
					tick.Stop()
					return
				}
			}
		}
	}
	flood := func(first string) func(net.Conn) {
		return func(conn net.Conn) {
			_, _ = io.WriteString(conn, first)
			chunk := strings.Repeat("x", 64<<10)
			for {
				if _, err := io.WriteString(conn, chunk); err != nil {
					return
				}
			}
		}
	}
	body := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
	for name, c := range map[string]struct {
		answer  func(net.Conn)
		timeout string
		kind    fault.Kind
	}{
		"a slow head":     {trickle("HTTP/1.1 200 OK\r\nX-Slow: "), "700ms", fault.Deadline},
		"a slow body":     {trickle(body), "700ms", fault.Deadline},
		"an endless head": {flood("HTTP/1.1 200 OK\r\nX-Long: "), "30s", fault.Broken},
		"an endless body": {flood(body), "30s", fault.TooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mcptest.New(mcptest.Config{})
			var bad atomic.Bool
			f := serveAt(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost || !bad.CompareAndSwap(true, false) {
					s.Handler().ServeHTTP(w, r)
					return
				}
				conn, _, err := w.(http.Hijacker).Hijack()
				if err != nil {
					panic(http.ErrAbortHandler)
				}
				defer conn.Close()
				c.answer(conn)
			}))
			hub := open(t, servers{"a": with(f.web(), map[string]any{"callTimeout": c.timeout, "maxMessage": "1MiB"})}, everline.Options{})
			st := ready(t, hub, "a", 0)
			bad.Store(true)
			_, err := call(t, hub, "work", `{"id":"x"}`)
			if fault.KindOf(err) != c.kind {
				t.Errorf("%v, want kind %v", err, c.kind)
			}
			together(t, hub, 5, "after it", s)
			if now, _ := hub.Server("a"); now.Generation != st.Generation {
				t.Errorf("generation %d, was %d", now.Generation, st.Generation)
			}
		})
	}
}

// P2: connections that went dead in the pool are found out without a failed
// call, where nothing was written, and cost a harmless call nothing at all.
func TestFaultP2DeadConnectionsInThePool(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	f := serveAt(t, s.Handler())
	hub := open(t, servers{"a": f.web()}, everline.Options{})
	st := ready(t, hub, "a", 0)
	for range 5 {
		together(t, hub, 8, "to fill the pool", s)
		f.shut() // the sessions stay: only the connections end
		f.open()
		mustCall(t, hub, "echo", `{}`)
	}
	if now, _ := hub.Server("a"); now.Generation != st.Generation || s.Count("initialize") != 1 {
		t.Errorf("generation %d, was %d", now.Generation, st.Generation)
	}
}

// HTTP/2: a server that says GOAWAY now and then, as balancers do when they
// have had enough of a connection, costs no generation and no harmless call,
// and no call runs twice.
func TestHTTP2Goaway(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	var h2, posts atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 {
			h2.Add(1)
		}
		if r.Method == http.MethodPost && posts.Add(1)%50 == 0 {
			w.Header().Set("Connection", "close")
		}
		s.Handler().ServeHTTP(w, r)
	}))
	srv.EnableHTTP2 = true
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	t.Cleanup(func() { s.Close(); srv.CloseClientConnections(); srv.Close() })
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	// The system's roots are read once in a process: a process of its own.
	again(t, "TestCallsOfAProcess", "SSL_CERT_FILE="+ca, "SSL_CERT_DIR=/nonexistent", "EVERLINE_TEST_URL="+srv.URL+"/mcp")
	if h2.Load() < 100 {
		t.Errorf("%d requests over HTTP/2", h2.Load())
	}
	for i := range 200 {
		if n := s.Executions(fmt.Sprint(i)); n > 1 {
			t.Errorf("call %d ran %d times", i, n)
		}
	}
	if n := s.Count("initialize"); n != 1 {
		t.Errorf("%d initializes", n)
	}
}

// TestCallsOfAProcess is the client's side of tests that need a process of
// their own.
func TestCallsOfAProcess(t *testing.T) {
	url := os.Getenv("EVERLINE_TEST_URL")
	if url == "" {
		url = mcptest.Web(t, mcptest.New(mcptest.Config{})).URL + "/mcp" // alone it is a test of HTTP/1
	}
	hub := open(t, servers{"a": {"type": "http", "url": url}}, everline.Options{})
	ready(t, hub, "a", 0)
	var callers sync.WaitGroup
	places := make(chan struct{}, 10)
	for i := range 200 {
		callers.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			if err := once(hub, "echo", `{}`); err != nil {
				t.Error(err)
			}
			// Whether the server saw this one cannot always be told.
			err := once(hub, "work", `{"id":"`+fmt.Sprint(i)+`"}`)
			if f := fault.From("", err); f != nil && (f.Kind != fault.Closed || f.Outcome != fault.Unknown) {
				t.Error(err)
			}
		})
	}
	callers.Wait()
}

// A proxy that the environment names is used, and gets no header that is
// meant for the server over TLS.
func TestProxyFromTheEnvironment(t *testing.T) {
	s := mcptest.New(mcptest.Config{})
	var proxied atomic.Int64
	proxy := serveAt(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Host == "server.test" { // an absolute form: to a proxy
			proxied.Add(1)
		}
		s.Handler().ServeHTTP(w, r)
	}))
	again(t, "TestCallsOfAProcess", "HTTP_PROXY=http://"+proxy.addr, "NO_PROXY=", "EVERLINE_TEST_URL=http://server.test/mcp")
	if proxied.Load() < 200 {
		t.Errorf("%d requests over the proxy", proxied.Load())
	}
}

// again runs one test of this binary in a process of its own, which has the
// time to say by itself what it waited for.
func again(t *testing.T, name string, env ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*soon)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+name+"$", "-test.count=1", "-test.timeout="+(2*soon).String())
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", name, err, out)
	}
}
