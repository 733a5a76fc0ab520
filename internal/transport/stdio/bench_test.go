package stdio

import (
	"bufio"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/wire"
)

// childFast is a server that costs as little as possible itself.
func childFast() {
	input := bufio.NewReaderSize(os.Stdin, 128<<10)
	var out []byte
	for {
		line, err := input.ReadSlice('\n')
		if err != nil {
			return
		}
		m, err := wire.Parse(line)
		if err != nil {
			os.Exit(3)
		}
		out = append(wire.AppendResult(out[:0], m.ID, m.Params), '\n')
		if _, err := os.Stdout.Write(out); err != nil {
			return
		}
	}
}

func benchPeer(b *testing.B) *conn {
	b.Helper()
	c, err := Open(b.Context(), childSpec("fast"), transport.Options{Inbound: func(transport.Inbound) {}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return c.(*conn)
}

func benchCall(b *testing.B, c *conn, id int64, params []byte) {
	r := transport.Request{ID: id, Method: "echo", Frame: wire.AppendRequest(nil, id, "echo", params)}
	m, err := c.Call(b.Context(), &r)
	if err != nil || len(m.Result) != len(params) {
		b.Fatal(len(m.Result), err)
	}
}

func BenchmarkCall(b *testing.B) {
	small := []byte(`{"text":"hello"}`)
	large := []byte(`{"text":"` + strings.Repeat("The quick brown fox. ", 3<<10) + `"}`)
	b.Run("one", func(b *testing.B) {
		c := benchPeer(b)
		b.ReportAllocs()
		for b.Loop() {
			benchCall(b, c, 1, small)
		}
	})
	b.Run("one64KiB", func(b *testing.B) {
		c := benchPeer(b)
		b.ReportAllocs()
		for b.Loop() {
			benchCall(b, c, 1, large)
		}
	})
	b.Run("parallel16", func(b *testing.B) {
		c := benchPeer(b)
		ids := make(chan int64, 64)
		for id := range int64(cap(ids)) {
			ids <- id
		}
		b.ReportAllocs()
		b.SetParallelism(8) // on two cores
		b.RunParallel(func(pb *testing.PB) {
			id := <-ids
			for pb.Next() {
				benchCall(b, c, id, small)
			}
			ids <- id
		})
	})
}
