package http

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/internal/transport"
)

// settling makes calls to a server that ends its streams so long after the
// answer, and returns the time of each and the number of connections.
func settling(t *testing.T, after time.Duration, calls int) (took []time.Duration, dials int) {
	synctest.Test(t, func(t *testing.T) {
		_, spec, end := bubble(func(w http.ResponseWriter, r *http.Request, s seen) {
			startEvents(w)
			write(w, eventOf("", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, s.id)))
			select {
			case <-time.After(after):
			case <-r.Context().Done():
			}
		})
		defer end()
		tr := spec.Client.Transport.(*http.Transport)
		dial := tr.DialContext
		tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials++
			return dial(ctx, network, addr)
		}
		c, err := Open(t.Context(), spec, transport.Options{Inbound: func(transport.Inbound) {}})
		if err != nil {
			t.Fatal(err)
		}
		defer closeConn(t, c)
		for id := range int64(calls) {
			began := time.Now()
			mustCall(t, c, id+1, "tools/call")
			took = append(took, time.Since(began))
			synctest.Wait()
		}
	})
	return took, dials
}

// A stream that ends right after its answer gives its connection back.
func TestSettleKeepsTheConnection(t *testing.T) {
	if _, dials := settling(t, time.Millisecond, 20); dials != 1 {
		t.Errorf("%d connections for 20 calls", dials)
	}
}

// B5: a server that leaves its streams open is not waited for again and again.
func TestFaultB5OpenStreamsAreNotWaitedFor(t *testing.T) {
	took, dials := settling(t, time.Hour, 20)
	var sum time.Duration
	for i, d := range took {
		if i < 3 && d != settleWait {
			t.Errorf("call %d took %v, want %v", i, d, settleWait)
		}
		sum += d
	}
	if sum != 4*settleWait || dials != 20 {
		t.Errorf("20 calls took %v over %d connections", sum, dials)
	}
}
