package http

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/auth"
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
