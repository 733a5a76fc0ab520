package slot

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/upstream"
)

func quiet() Options {
	s := spec()
	s.RefreshInterval = 0
	return Options{Server: s}
}

// Whatever goes wrong with a later listing, the last good one stays.
func TestFaultG3(t *testing.T) {
	for _, err := range []*fault.Fault{{Kind: fault.HTTPStatus, Status: 500}, errTimeout, errRPC, errCut} {
		t.Run(err.Kind.String(), func(t *testing.T) {
			srv := newServer("a")
			play(t, quiet(), srv, 0.5, func(b *bench) {
				srv.with(func() {
					srv.catalog = tools2catalog("a", "b")
					srv.list = func(_ context.Context, _ *fake, n int) (*catalogT, error) {
						if n == 2 {
							return nil, err
						}
						return srv.catalog, nil
					}
				})
				srv.fake(1).hooks.Changed(catalog.Tools)
				b.wantTools("a")
				if f, _ := b.callNow(false); f != nil {
					t.Error(f)
				}
				b.at(249 * time.Millisecond)
				b.wantTools("a")
				b.at(250 * time.Millisecond)
				b.wantTools("a", "b")
				b.wantDials(0)
				if b.View().State.ListStrikes != 0 {
					t.Error("the good listing did not clear the strike")
				}
			})
		})
	}
}

// The server announces a change each time it is asked.
func TestFaultG6(t *testing.T) {
	for _, c := range []struct {
		name      string
		delay     time.Duration
		alternate bool
		most      int // listings in three minutes
	}{
		{"soon after", 5 * time.Millisecond, false, 16},
		{"a second after", 1100 * time.Millisecond, false, 16},
		{"and it really alternates", 5 * time.Millisecond, true, 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := newServer("a")
			srv.list = func(_ context.Context, u *fake, n int) (*catalogT, error) {
				time.AfterFunc(c.delay, func() { u.hooks.Changed(catalog.Tools) })
				if c.alternate && n%2 == 0 {
					return tools2catalog("b"), nil
				}
				return srv.catalog, nil
			}
			play(t, quiet(), srv, 0.5, func(b *bench) {
				b.at(3 * time.Minute)
				if _, lists, _ := srv.count(); lists > c.most || lists < 5 {
					t.Errorf("%d listings in three minutes", lists)
				}
				if n := count[event.CatalogChanged](b); !c.alternate && n != 1 {
					t.Errorf("%d changes told", n)
				}
				srv.with(func() { srv.list = nil })
				b.at(5 * time.Minute)
				srv.with(func() { srv.catalog = tools2catalog("z") })
				srv.fake(1).hooks.Changed(catalog.Tools)
				if !c.alternate {
					b.wantTools("z") // after a quiet time it is looked immediately again
				}
			})
		})
	}
}

// A burst of 200 announcements is one listing and one more.
func TestFaultG7(t *testing.T) {
	srv := newServer("a")
	play(t, quiet(), srv, 0.5, func(b *bench) {
		b.at(second)
		srv.with(func() {
			srv.list = func(ctx context.Context, _ *fake, _ int) (*catalogT, error) {
				return srv.catalog, sleep(ctx, 50*time.Millisecond)
			}
		})
		for range 200 {
			srv.fake(1).hooks.Changed(catalog.Tools)
			time.Sleep(time.Millisecond / 10)
		}
		b.at(time.Minute)
		if _, lists, _ := srv.count(); lists != 3 {
			t.Errorf("%d listings, want the first and two", lists)
		}
	})
}

// The last announcement of a burst carries the last tool.
func TestFaultG8(t *testing.T) {
	srv := newServer()
	srv.catalog = tools2catalog("a")
	play(t, quiet(), srv, 0.5, func(b *bench) {
		names := []string{"a"}
		for _, n := range []string{"b", "c", "d"} {
			names = append(names, n)
			srv.with(func() { srv.catalog = tools2catalog(names...) })
			srv.fake(1).hooks.Changed(catalog.Tools)
			time.Sleep(100 * time.Millisecond)
		}
		b.at(second)
		b.wantTools("a", "b", "c", "d")
	})
	t.Run("during a listing", func(t *testing.T) {
		srv := newServer("a")
		play(t, quiet(), srv, 0.5, func(b *bench) {
			b.at(second)
			srv.with(func() {
				srv.list = func(ctx context.Context, _ *fake, _ int) (*catalogT, error) {
					cat := srv.catalog // what it was when the listing began
					return cat, sleep(ctx, second)
				}
			})
			srv.fake(1).hooks.Changed(catalog.Tools)
			b.at(1500 * time.Millisecond)
			srv.with(func() { srv.catalog = tools2catalog("z") })
			srv.fake(1).hooks.Changed(catalog.Prompts)
			b.at(time.Minute)
			b.wantTools("z")
		})
	})
}

// The transport connects, but the first listings fail.
func TestFaultG9(t *testing.T) {
	t.Run("then it works", func(t *testing.T) {
		srv := newServer("a")
		srv.list = func(_ context.Context, _ *fake, n int) (*catalogT, error) {
			if n <= 2 {
				return nil, errTimeout
			}
			return srv.catalog, nil
		}
		play(t, Options{Last: tools2catalog("old")}, srv, 0.5, func(b *bench) {
			b.seen("connecting")
			b.wantTools("old")
			b.at(750 * time.Millisecond)
			b.seen("connected")
			b.wantTools("a")
			b.wantDials(0)
		})
	})
	t.Run("it swallows the first one", func(t *testing.T) {
		srv := newServer("a")
		srv.list = func(ctx context.Context, _ *fake, n int) (*catalogT, error) {
			if n == 1 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return srv.catalog, nil
		}
		play(t, Options{}, srv, 0.5, func(b *bench) {
			b.at(time.Minute)
			b.seen("connected")
			b.wantDials(0)
		})
	})
	t.Run("it never works", func(t *testing.T) {
		srv := newServer("a")
		srv.list = func(context.Context, *fake, int) (*catalogT, error) { return nil, errRPC }
		play(t, Options{}, srv, 0.5, func(b *bench) {
			b.at(750 * time.Millisecond)
			if n := len(srv.gone()); n != 1 {
				t.Errorf("%d generations closed, want the one that could not list", n)
			}
			if f := lastOf[event.StartFailed](b); f.Cause.Kind != fault.RPC {
				t.Errorf("told %v", f)
			}
			if b.View().Seen() == "connected" {
				t.Error("connected without a catalog")
			}
		})
	})
}

// A server without tools at first: its empty list is not the last word.
func TestFaultG11(t *testing.T) {
	empty := &catalog.Catalog{Capabilities: []byte(`{"tools":{}}`)}
	full := tools2catalog("a", "b")
	full.Capabilities = empty.Capabilities
	t.Run("never had any", func(t *testing.T) {
		srv := newServer()
		srv.list = func(_ context.Context, _ *fake, n int) (*catalogT, error) {
			if n <= 2 {
				return empty, nil
			}
			return full, nil
		}
		play(t, quiet(), srv, 0.5, func(b *bench) {
			b.seen("connected")
			b.at(3 * second)
			b.wantTools("a", "b")
			b.at(time.Hour)
			if _, lists, _ := srv.count(); lists != 3 {
				t.Errorf("%d listings", lists)
			}
		})
	})
	t.Run("had some", func(t *testing.T) {
		srv := newServer()
		srv.list = func(_ context.Context, _ *fake, n int) (*catalogT, error) {
			if n <= 1 {
				return empty, nil
			}
			return full, nil
		}
		o := quiet()
		o.Last = full
		play(t, o, srv, 0.5, func(b *bench) {
			b.at(second)
			b.seen("connected")
			for _, v := range b.views {
				if len(toolsOf(v)) != 2 {
					t.Fatal("an empty list was believed at first sight")
				}
			}
		})
	})
}

// An empty list that stays empty is believed in the end.
func TestEmptyListIsBelieved(t *testing.T) {
	empty := &catalog.Catalog{Capabilities: []byte(`{"tools":{}}`)}
	t.Run("really has none", func(t *testing.T) {
		srv := newServer()
		srv.catalog = empty
		o := quiet()
		o.Last = tools2catalog("a", "b")
		play(t, o, srv, 0.5, func(b *bench) {
			b.at(time.Hour)
			b.wantTools()
			if _, lists, _ := srv.count(); lists != 2+extraLooks {
				t.Errorf("%d listings", lists)
			}
		})
	})
	t.Run("lost them later", func(t *testing.T) {
		srv := newServer("a")
		play(t, quiet(), srv, 0.5, func(b *bench) {
			srv.with(func() { srv.catalog = tools2catalog() })
			srv.fake(1).hooks.Changed(catalog.Tools)
			b.at(999 * time.Millisecond)
			b.wantTools("a")
			b.at(second)
			b.wantTools()
		})
	})
}

// A server that is busy with a call does not answer a listing in time.
func TestFaultG12(t *testing.T) {
	srv := newServer("a")
	srv.call = func(ctx context.Context, _ *fake, _ *upstream.Call) ([]byte, error) {
		return []byte(`{}`), sleep(ctx, 4*time.Minute)
	}
	play(t, quiet(), srv, 0.5, func(b *bench) {
		go func() {
			_, _ = b.Call(b.t.Context(), &upstream.Call{}, config.ReplayNever)
		}()
		synctest.Wait()
		srv.with(func() {
			srv.list = func(ctx context.Context, _ *fake, _ int) (*catalogT, error) {
				if time.Since(b.t0) < 230*second {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return tools2catalog("a", "b"), nil
			}
		})
		srv.fake(1).hooks.Changed(catalog.Tools)
		b.at(239 * second)
		if n := count[event.ListFailed](b); n != 3 || b.View().State.Gen != 1 {
			t.Errorf("%d listings failed, generation %d", n, b.View().State.Gen)
		}
		b.wantTools("a")
		b.at(5 * time.Minute)
		b.wantTools("a", "b")
	})
}

func TestPeriodicListing(t *testing.T) {
	for _, c := range []struct {
		name  string
		every time.Duration
		ttl   time.Duration
		want  []time.Duration
	}{
		{"interval", 5 * time.Minute, 0, []time.Duration{0, 270 * second, 540 * second}},
		{"never", 0, 0, []time.Duration{0}},
		{"ttl", 5 * time.Minute, 4 * time.Minute, []time.Duration{0, 240 * second, 480 * second}},
		{"ttl alone", 0, 4 * time.Minute, []time.Duration{0, 240 * second, 480 * second}},
		{"ttl longer", 5 * time.Minute, time.Hour, []time.Duration{0, 270 * second, 540 * second}},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := newServer("a")
			srv.catalog.TTL[catalog.Tools] = c.ttl
			s := spec()
			s.RefreshInterval = c.every
			play(t, Options{Server: s}, srv, 0, func(b *bench) {
				b.at(541 * second)
				var got []time.Duration
				srv.with(func() {
					for _, l := range srv.lists {
						got = append(got, l.Sub(b.t0))
					}
				})
				if !slices.Equal(got, c.want) {
					t.Errorf("listings at %v, want %v", got, c.want)
				}
				if b.View().Catalog != srv.catalog {
					t.Error("an unchanged listing must not replace the catalog")
				}
			})
		})
	}
}

// A restart with an identical catalog is silent, one with another is told once.
func TestFaultG2(t *testing.T) {
	srv := newServer("a", "b")
	play(t, quiet(), srv, 0.5, func(b *bench) {
		was := b.View().Catalog
		srv.with(func() { srv.catalog = tools2catalog("a", "b") })
		srv.fake(1).end(errDied)
		b.seen("connected")
		if b.View().Catalog != was || count[event.CatalogChanged](b) != 1 {
			t.Error("an identical catalog was published anew")
		}
		srv.with(func() { srv.catalog = tools2catalog("b", "c") })
		b.at(time.Minute)
		srv.fake(2).end(errDied)
		b.wantTools("b", "c")
		c := lastOf[event.CatalogChanged](b)
		if count[event.CatalogChanged](b) != 2 || c.Change.String() != "tools +c; tools -a" {
			t.Errorf("told %v", c)
		}
	})
}

// However long a server was quiet, and however often it was listed meanwhile
// without having said anything: what it announces is looked at immediately.
func TestAnnouncementOfAQuietServer(t *testing.T) {
	for _, c := range []struct{ every, ttl time.Duration }{{5 * time.Minute, 0}, {10 * time.Second, 0}, {0, time.Minute}} {
		t.Run(c.every.String()+" "+c.ttl.String(), func(t *testing.T) {
			s := spec()
			s.RefreshInterval = c.every
			srv := newServer("a")
			srv.catalog.TTL[catalog.Tools] = c.ttl
			play(t, Options{Server: s}, srv, 0.5, func(b *bench) {
				b.at(time.Hour + 2*time.Second)
				srv.with(func() { srv.catalog = tools2catalog("a", "b") })
				srv.fake(1).hooks.Changed(catalog.Tools)
				time.Sleep(gapFirst)
				synctest.Wait()
				b.wantTools("a", "b")
			})
		})
	}
}
