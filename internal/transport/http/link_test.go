package http

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/transport"
)

// A dial that hangs until the context ends proves that nothing was sent.
func TestHangingDialIsNotSent(t *testing.T) {
	over := make(chan struct{}) // a dial may outlive the request that asked for it
	defer close(over)
	tr := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		<-over
		return nil, errors.New("no connection")
	}}
	c := dial(t, Spec{URL: "http://server/", Client: &http.Client{Transport: tr}}, transport.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := c.Call(ctx, newRequest(1, "tools/call", `{}`))
	wantFault(t, err, fault.Deadline, fault.NotSent)
}

// A certificate that is not trusted: nothing of the message was sent.
func TestFailedTLSIsNotSent(t *testing.T) {
	h := &scripted{play: func(w http.ResponseWriter, _ *http.Request, s seen) { answerJSON(w, s) }}
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	c := dial(t, Spec{URL: srv.URL}, transport.Options{})
	_, err := call(t, c, 1, "tools/call")
	wantFault(t, err, fault.Dial, fault.NotSent)
	if n := h.count(http.MethodPost, ""); n != 0 {
		t.Errorf("the server saw %d requests", n)
	}
}

// tripFunc is a round tripper that reports no connections.
type tripFunc func(*http.Request) (*http.Response, error)

func (f tripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A round tripper that does not report connections proves nothing; one that
// returns a fault is believed.
func TestForeignRoundTripper(t *testing.T) {
	fail := errors.New("broken in some way")
	client := &http.Client{Transport: tripFunc(func(*http.Request) (*http.Response, error) { return nil, fail })}
	c := dial(t, Spec{URL: "http://server/", Client: client}, transport.Options{})
	_, err := call(t, c, 1, "tools/call")
	wantFault(t, err, fault.Broken, fault.Unknown)
	fail = &fault.Fault{Kind: fault.Unauthorized, Outcome: fault.NotSent}
	_, err = call(t, c, 2, "tools/call")
	wantFault(t, err, fault.Unauthorized, fault.NotSent)
}

// Redirects are followed where they keep a POST and stay at home.
func TestRedirects(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("h2=%v", h2), func(t *testing.T) {
			other, elsewhere := serve(t, func(w http.ResponseWriter, _ *http.Request, s seen) { answerJSON(w, s) })
			srv := httptest.NewUnstartedServer(&scripted{play: func(w http.ResponseWriter, r *http.Request, s seen) {
				switch {
				case r.URL.Path == "/mcp/":
					answerJSON(w, s)
				case s.method == "same":
					http.Redirect(w, r, "/mcp/", http.StatusTemporaryRedirect)
				case s.method == "login":
					http.Redirect(w, r, "/mcp/", http.StatusFound)
				default:
					http.Redirect(w, r, elsewhere.URL, http.StatusPermanentRedirect)
				}
			}})
			srv.EnableHTTP2 = h2
			srv.StartTLS()
			defer srv.Close()
			c := dial(t, Spec{URL: srv.URL + "/mcp", Client: srv.Client()}, transport.Options{})
			mustCall(t, c, 1, "same")
			for id, method := range []string{"login", "away"} {
				_, err := call(t, c, int64(id+2), method)
				f := wantFault(t, err, fault.HTTPStatus, fault.Unknown)
				if f.Status/100 != 3 || f.Remedy == "" {
					t.Errorf("%s: %+v", method, f)
				}
			}
			if n := other.count(http.MethodPost, ""); n != 0 {
				t.Errorf("the message went to another origin %d times", n)
			}
		})
	}
}

// What the configuration says goes with every request, and is not shown.
func TestConfiguredFields(t *testing.T) {
	var host atomic.Value
	h, srv := serve(t, func(w http.ResponseWriter, r *http.Request, s seen) {
		host.Store(r.Host)
		answerJSON(w, s)
	})
	address := "http://me:pw@" + srv.Listener.Addr().String() + "/mcp?key=secret"
	c := dial(t, Spec{URL: address, Headers: map[string]string{"Host": "a.example", "X-Key": "k"}}, transport.Options{})
	mustCall(t, c, 1, "tools/list")
	got := h.all(http.MethodPost, "")[0].header
	if host.Load() != "a.example" || got.Get("X-Key") != "k" || got.Get("Authorization") != "Basic bWU6cHc=" {
		t.Errorf("host %v, header %v", host.Load(), got)
	}
	if want := "http://me:xxxxx@" + srv.Listener.Addr().String() + "/mcp"; c.Info().URL != want {
		t.Errorf("shown as %s, want %s", c.Info().URL, want)
	}
}

// A server in a unix socket.
func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var address atomic.Value
	h := &scripted{play: func(w http.ResponseWriter, r *http.Request, s seen) {
		address.Store(r.URL.Path)
		answerJSON(w, s)
	}}
	srv := httptest.NewUnstartedServer(h)
	_ = srv.Listener.Close()
	srv.Listener = listener
	srv.Start()
	defer srv.Close()
	c := dial(t, Spec{URL: "unix://" + path + "#/mcp"}, transport.Options{})
	mustCall(t, c, 1, "tools/list")
	if address.Load() != "/mcp" {
		t.Errorf("the path is %v", address.Load())
	}
}

// Connections are used again: by JSON answers, by event streams that end, and
// by notifications.
func TestReusesConnections(t *testing.T) {
	var mu sync.Mutex
	peers := map[string]bool{}
	_, srv := serve(t, func(w http.ResponseWriter, r *http.Request, s seen) {
		mu.Lock()
		peers[r.RemoteAddr] = true
		mu.Unlock()
		switch {
		case s.id == "":
			w.WriteHeader(http.StatusAccepted)
		case s.method == "stream":
			startEvents(w)
			write(w, eventOf("", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, s.id)))
		case s.method == "error":
			http.Error(w, "no", http.StatusInternalServerError)
		default:
			answerJSON(w, s)
		}
	})
	c := dial(t, Spec{URL: srv.URL}, transport.Options{})
	for id := range int64(20) {
		mustCall(t, c, 3*id+1, "json")
		mustCall(t, c, 3*id+2, "stream")
		if err := c.Send(t.Context(), []byte(`{"jsonrpc":"2.0","method":"notifications/x"}`)); err != nil {
			t.Fatal(err)
		}
		_, err := call(t, c, 3*id+3, "error")
		wantFault(t, err, fault.HTTPStatus, fault.Unknown)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(peers) > 3 { // a stream that ended too late on a busy machine costs one
		t.Errorf("%d connections for 80 requests one after another", len(peers))
	}
}

// Close ends what is under way, with an outcome that is not known.
func TestCloseEndsCalls(t *testing.T) {
	inside := make(chan struct{}, 1)
	_, srv := serve(t, func(_ http.ResponseWriter, r *http.Request, _ seen) {
		inside <- struct{}{}
		<-r.Context().Done()
	})
	c := dial(t, Spec{URL: srv.URL}, transport.Options{})
	failed := make(chan error, 1)
	go func() { // ended by Close
		_, err := c.Call(context.Background(), newRequest(1, "tools/call", `{}`))
		failed <- err
	}()
	await(t, inside, "the call")
	closeConn(t, c)
	wantFault(t, <-failed, fault.Closed, fault.Unknown)
	await(t, c.Done(), "Done")
}
