package bridge

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func TestFaultS8HoldingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct{ lines, size, most int }{{maxHeld + 500, 10, maxHeld}, {100, 1 << 20, maxHeldBytes >> 20}, {1, maxHeldBytes * 2, 1}} {
			var h holder
			h.begin()
			var held, done atomic.Int64
			ctx, cancel := context.WithCancel(t.Context())
			go func() { // ends with its lines
				for i := range c.lines {
					if h.hold(ctx, append(make([]byte, c.size), fmt.Sprint(i)...)) {
						held.Add(1)
					}
				}
				done.Add(1)
			}()
			synctest.Wait()
			if n := held.Load(); n > int64(c.most) || n == 0 {
				t.Errorf("%d lines of %d bytes are held", n, c.size)
			}
			next := 0
			h.release(func(line []byte) bool {
				if want := fmt.Sprint(next); !strings.HasSuffix(string(line), want) {
					t.Errorf("line %d is %q", next, line[len(line)-8:])
				}
				next++
				return true
			})
			synctest.Wait()
			if done.Load() != 1 || h.hold(ctx, nil) {
				t.Error("something is held on")
			}
			cancel()
		}
		var h holder
		h.begin()
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() { // ends with ctx
			defer close(over)
			for range maxHeld + 1 {
				h.hold(ctx, []byte("x"))
			}
			h.wait(ctx)
		}()
		synctest.Wait()
		cancel()
		<-over
	})
}
