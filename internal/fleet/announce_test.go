package fleet

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/mcptest"
)

// What a server announces is passed on though its lists are the same, at most once a
// second; what it announces at its start, and what has changed, is not.
func TestAnAnnouncementWithoutAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var said []string
		began := time.Now()
		p := newPark()
		srv := p.add("a", mcptest.Config{Tools: []string{tool("x", "")}})
		o := p.options()
		note := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, fmt.Sprint(what, " ", time.Since(began).Truncate(100*time.Millisecond)))
		}
		o.Announced = func(server string, kinds []catalog.Kind) { note(fmt.Sprintf("announced %s%v", server, kinds)) }
		o.Changed = func(kinds []catalog.Kind) { note(fmt.Sprintf("changed %v", kinds)) }
		f := New(configOf("a"), o)
		defer f.Close(context.Background())
		synctest.Wait()
		mu.Lock()
		said = nil
		mu.Unlock()
		announce := func() {
			srv.Notify("notifications/tools/list_changed", "")
			time.Sleep(10 * time.Millisecond)
		}
		begin := func() {
			mu.Lock()
			defer mu.Unlock()
			began = time.Now()
		}
		time.Sleep(time.Minute)
		begin()
		for range 5 {
			announce()
		}
		time.Sleep(time.Minute)
		begin()
		srv.SetTools(tool("x", ""), tool("y", ""))
		announce()
		time.Sleep(time.Minute)
		if err := f.Slot("a").Reconnect(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if got := fmt.Sprint(said); got != "[announced a[tools] 0s announced a[tools] 1s changed [tools] 0s]" {
			t.Errorf("said %s", got)
		}
	})
}

// Who has waited for a table comes after those who were told of it: a list that is
// answered then is not announced behind its back.
func TestWhoWaitsForATableIsNotToldOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPark()
		p.add("a", mcptest.Config{Tools: []string{tool("one", "")}})
		p.add("b", mcptest.Config{Tools: []string{tool("two", "")}})
		o := p.options()
		var told atomic.Int64
		o.Changed = func([]catalog.Kind) {
			time.Sleep(time.Millisecond) // as long as the machine may take for it
			told.Add(1)
		}
		f := New(configOf("a"), o)
		defer stop(t, f)
		check := func(server string) {
			t.Helper()
			n := told.Load()
			if counts := f.Table().Counts(); counts[server][catalog.Tools] != 1 {
				t.Errorf("%s: %v", server, counts)
			}
			time.Sleep(time.Second)
			if later := told.Load(); n == 0 || later != n {
				t.Errorf("%s: told %d times, and %d later", server, n, later-n)
			}
		}
		f.WaitFirst(t.Context())
		check("a")
		if _, err := f.Apply(t.Context(), configOf("a", "b")); err != nil {
			t.Fatal(err)
		}
		for v := f.Slot("b").View(); v.State.Serving == 0; v = f.Slot("b").View() {
			<-v.Changed
		}
		if err := f.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		check("b")
	})
}
