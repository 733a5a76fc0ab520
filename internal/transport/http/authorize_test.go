package http

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/auth"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/transport"
)

// tickets is a credential of which each refusal brings the next.
type tickets struct{ n atomic.Int64 }

func (t *tickets) Header(context.Context) (auth.Ticket, *fault.Fault) {
	return auth.Ticket{Value: fmt.Sprint("Bearer ", t.n.Load())}, nil
}

func (t *tickets) Refused(context.Context, auth.Ticket, int, []string) *fault.Fault {
	t.n.Add(1)
	return nil
}

func (t *tickets) State() *auth.State { return &auth.State{} }
func (t *tickets) Agreed(string)      {}

// A request that is refused before all of it was read is sent once more, over
// both versions of HTTP: what is still being written of the first is no reason
// to take it for one that may have been executed.
func TestRefusedBeforeItWasRead(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		var ran atomic.Int64
		site := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "Bearer 0" {
				w.Header().Set("Www-Authenticate", "Bearer")
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			body, _ := io.ReadAll(r.Body)
			ran.Add(1)
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":{"bytes":%d}}`, len(body))
		}))
		site.EnableHTTP2 = h2
		site.StartTLS()
		for range 20 {
			ran.Store(0)
			c, err := Open(t.Context(), Spec{URL: site.URL, Client: site.Client(), Auth: &tickets{}}, transport.Options{})
			if err != nil {
				t.Fatal(err)
			}
			frame := bytes.Replace([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"pad":"x"}}`), []byte("x"), bytes.Repeat([]byte("x"), 2<<20), 1)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			msg, err := c.Call(ctx, &transport.Request{ID: 1, Method: "tools/call", Frame: frame})
			if want := fmt.Sprintf(`{"bytes":%d}`, len(frame)); err != nil || string(msg.Result) != want || ran.Load() != 1 {
				t.Errorf("HTTP/2 %t: %v, %s, ran %d times", h2, err, msg.Result, ran.Load())
			}
			cancel()
			_ = c.Close(t.Context())
		}
		site.CloseClientConnections()
		site.Client().CloseIdleConnections()
		site.Close()
	}
}

// slowly is a credential that takes its time, and a server that does.
type slowly struct {
	tickets
	token, answer time.Duration
	asked         int
}

func (s *slowly) Header(ctx context.Context) (auth.Ticket, *fault.Fault) {
	select {
	case <-time.After(s.token):
		return s.tickets.Header(ctx)
	case <-ctx.Done():
		return auth.Ticket{}, fault.From(fault.OpAuthorize, context.Cause(ctx))
	}
}

func (s *slowly) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked++
	select {
	case <-time.After(s.answer):
		return &http.Response{
			StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r, ContentLength: -1,
			Body: io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":1,"result":{}}`)),
		}, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// The answer of an initialize that was given up is waited for a little: it may
// have begun a session. One that waits for a token was not sent, and is not.
func TestGivenUpInitialize(t *testing.T) {
	for name, c := range map[string]struct {
		token, answer time.Duration
		took          time.Duration
		op            string // of the failure; "": there was an answer
		asked         int
	}{
		"its token comes too late":       {1500 * time.Millisecond, 0, time.Second, fault.OpAuthorize, 0},
		"its answer comes a little late": {0, 1500 * time.Millisecond, 1500 * time.Millisecond, "", 1},
		"its answer comes too late":      {0, 3 * time.Second, 2 * time.Second, mcp.Initialize, 1},
		"its time is not over":           {500 * time.Millisecond, 400 * time.Millisecond, 900 * time.Millisecond, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := slowly{token: c.token, answer: c.answer}
				conn, err := Open(t.Context(), Spec{URL: "http://localhost/mcp", Client: &http.Client{Transport: &s}, Auth: &s}, transport.Options{})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began := time.Now()
				_, err = conn.Call(ctx, &transport.Request{ID: 1, Method: mcp.Initialize, Frame: []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize"}`)})
				f, failed := fault.As(err)
				if took := time.Since(began); took != c.took || failed != (c.op != "") || failed && (f.Op != c.op || f.Kind != fault.Deadline) || c.asked != s.asked {
					t.Errorf("after %s, asked %d times: %v", took, s.asked, err)
				}
				_ = conn.Close(t.Context())
			})
		})
	}
}
