package gateway

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestFaultV9HostileConnections is what 300 connections cost that send as much as
// they may, and never all of it.
func TestFaultV9HostileConnections(t *testing.T) {
	const most = 64 << 20
	s := serve(t, newHub(), Options{})
	inUse := func() int64 { // what a collection has found alive: how much garbage there is depends on the machine
		runtime.GC()
		m := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
		metrics.Read(m)
		return int64(m[0].Value.Uint64() + m[1].Value.Uint64())
	}
	idle := inUse()
	header := "X-Large: " + strings.Repeat("x", 27<<10)
	body := strings.Repeat(" ", 900<<10)
	var senders sync.WaitGroup
	var conns []net.Conn
	for i := range 300 {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
		send := func(text string) { _, _ = io.WriteString(c, text) } // who is turned away cannot send it all
		senders.Go(func() {
			switch i % 3 {
			case 0:
				send("GET /mcp HTTP/1.1\r\nHost: localhost\r\n" + header)
			case 1:
				send(posted + "Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n" + body)
			default:
				send(posted + "Content-Type: application/json\r\nMCP-Protocol-Version: 2026-07-28\r\nContent-Length: 60000000\r\n\r\n" + body)
			}
		})
	}
	worst := int64(0)
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		worst = max(worst, inUse()-idle)
	}
	if worst > most {
		t.Errorf("300 connections cost %d MiB", worst>>20)
	}
	for _, c := range conns {
		_ = c.Close()
	}
	senders.Wait()
	eventually(t, "all is given back", func() bool {
		b := &s.g.shared.bodies
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.used.Load() == 0 && b.unread == 0
	})
}

// TestBodiesWaitForEachOther, and one that has no room in time is refused.
func TestBodiesWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &budget{limit: bodyBudget}
		claims := func() *claim { return &claim{budget: b} }
		first, second, alone := claims(), claims(), claims()
		if !first.grow(bodyUnread - bodyAlone) {
			t.Fatal("no room for the first")
		}
		got := make(chan string, 1)
		began := time.Now()
		go func() { got <- fmt.Sprint(second.grow(2*bodyAlone), time.Since(began)) }() // ends within bodyWait
		time.Sleep(time.Second)
		first.read()
		if answer := <-got; answer != "true 1s" {
			t.Errorf("the second: %s", answer)
		}
		first.release()
		began = time.Now()
		if alone.grow(bodyUnread) || time.Since(began) != bodyWait {
			t.Errorf("room after %v", time.Since(began))
		}
		second.read()
		if !alone.grow(2 * bodyUnread) {
			t.Error("a large body has no room though it is alone")
		}
		alone.read()
		alone.release()
		second.release()
		if b.used.Load() != 0 || b.unread != 0 {
			t.Errorf("%d and %d bytes are left", b.used.Load(), b.unread)
		}
	})
}
