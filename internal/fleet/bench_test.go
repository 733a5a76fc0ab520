package fleet

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/slot"
	"github.com/everline/everline/internal/upstream"
)

// A still is a generation that lists what it is told to and does nothing else.
type still struct {
	catalog atomic.Pointer[catalog.Catalog]
	changed func(catalog.Kind)
	done    chan struct{}
	once    sync.Once
}

func (u *still) List(context.Context, *catalog.Catalog, ...catalog.Kind) (*catalog.Catalog, error) {
	return u.catalog.Load(), nil
}

func (u *still) Call(context.Context, *upstream.Call) (upstream.Result, error) {
	return upstream.Result{Raw: []byte(`{}`)}, nil
}
func (u *still) Notify(context.Context, string, []byte) error { return nil }
func (u *still) Ping(context.Context) error                   { return nil }
func (u *still) Done() <-chan struct{}                        { return u.done }
func (u *still) Err() error                                   { return nil }
func (u *still) Info() upstream.Info                          { return upstream.Info{} }
func (u *still) Close(context.Context) error {
	u.once.Do(func() { close(u.done) })
	return nil
}

func catalogOf(tools int, text string) *catalog.Catalog {
	c := &catalog.Catalog{At: time.Now()}
	for i := range tools {
		name := fmt.Sprintf("tool_%d", i)
		c.Items[catalog.Tools] = append(c.Items[catalog.Tools], catalog.Item{Name: name, Raw: []byte(tool(name, text))})
	}
	return c
}

// crowd is a fleet of n such servers, all of them connected.
func crowd(tb testing.TB, n int, mode config.Pins) (*Fleet, []*still) {
	tb.Helper()
	lives := make([]*still, n)
	names := make([]string, n)
	place := map[string]int{}
	for i := range n {
		names[i] = fmt.Sprintf("server-%d", i)
		place[names[i]] = i
		lives[i] = &still{done: make(chan struct{})}
		lives[i].catalog.Store(catalogOf(20, "what it does"))
	}
	cfg := configOf(names...)
	cfg.Pins, cfg.PinsFile = mode, tb.TempDir()+"/everline.lock.json"
	f := New(cfg, Options{StateDir: tb.TempDir(), Start: func(_ context.Context, o upstream.Options) (slot.Upstream, error) {
		u := lives[place[o.Server.Name]]
		u.changed = o.Changed
		return u, nil
	}})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for f.roster.Load().pending() {
		out := f.publisher.out.Load()
		if f.Flush(ctx) != nil {
			tb.Fatal("it does not come up")
		}
		if f.roster.Load().pending() {
			<-out.changed
		}
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := f.Close(ctx); err != nil {
			tb.Error(err)
		}
	})
	return f, lives
}

// BenchmarkChangeOf1000 is what a change of one server costs beside 999 others,
// from its announcement to the new table.
func BenchmarkChangeOf1000(b *testing.B) {
	for _, mode := range []config.Pins{config.PinsOff, config.PinsWarn} {
		b.Run("pins "+string(mode), func(b *testing.B) {
			f, lives := crowd(b, 1000, mode)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				u := lives[i%1000] // each its own turn, or its pace would be measured
				hash := f.Table().Hash(catalog.Tools)
				u.catalog.Store(catalogOf(20, fmt.Sprint("changed ", i)))
				u.changed(catalog.Tools)
				for out := f.publisher.out.Load(); f.Table().Hash(catalog.Tools) == hash; out = f.publisher.out.Load() {
					<-out.changed
				}
			}
		})
	}
}

// BenchmarkPublishOf1000 is the same where a server publishes a state that
// changes nothing of the table.
func BenchmarkPublishOf1000(b *testing.B) {
	f, _ := crowd(b, 1000, config.PinsOff)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		f.touched.add(fmt.Sprintf("server-%d", i%1000))
		if err := f.Flush(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
