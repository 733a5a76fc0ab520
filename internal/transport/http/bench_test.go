package http

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/everline/everline/internal/transport"
)

// BenchmarkCall measures a call over a real connection, server included;
// the client of net/http with the same exchange is beside it for comparison.
func BenchmarkCall(b *testing.B) {
	small, large := `{"content":[]}`, `{"text":"`+strings.Repeat("x", 64<<10)+`"}`
	for _, bb := range []struct {
		name, result string
		events       bool
	}{{"json", small, false}, {"json64k", large, false}, {"sse", small, true}, {"sse64k", large, true}} {
		answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"result":%s}`, bb.result)
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if bb.events {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, "event: message\ndata: "+answer+"\n\n")
				w.(http.Flusher).Flush()
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, answer)
		}))
		r := newRequest(7, "tools/call", `{"name":"echo","arguments":{}}`)
		b.Run(bb.name+"/everline", func(b *testing.B) {
			conn, err := Open(b.Context(), Spec{URL: srv.URL}, transport.Options{Inbound: func(transport.Inbound) {}})
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close(b.Context())
			benchParallel(b, func() error {
				_, err := conn.Call(b.Context(), r)
				return err
			})
		})
		b.Run(bb.name+"/nethttp", func(b *testing.B) {
			tr := newTransport()
			defer tr.CloseIdleConnections()
			client := &http.Client{Transport: tr}
			benchParallel(b, func() error {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, srv.URL, bytes.NewReader(r.Frame))
				if err != nil {
					return err
				}
				resp, err := client.Do(req)
				if err != nil {
					return err
				}
				_, err = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				return err
			})
		})
		srv.Close()
	}
}

func benchParallel(b *testing.B, call func() error) {
	var failed atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(8) // 16 at a time on two cores
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if call() != nil {
				failed.Add(1)
			}
		}
	})
	if n := failed.Load(); n > 0 {
		b.Errorf("%d calls failed", n)
	}
}
