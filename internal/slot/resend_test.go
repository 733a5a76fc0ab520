package slot

import (
	"context"
	"flag"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/upstream"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

// again says for people what follows.
func again(r *rule) string {
	switch r.then {
	case nextGeneration:
		return "yes, on the next connection, within the deadline"
	case afterPause:
		return "yes, at the time that the server named, if that is before the deadline"
	case ifHarmless:
		return "only if repeating it is harmless"
	default:
		return "never"
	}
}

// table is the table of outcomes as Markdown, for the documentation.
func table() string {
	var b strings.Builder
	b.WriteString("| what everline saw | outcome | sent again? | at most |\n|---|---|---|---|\n")
	for i := range rules {
		r := &rules[i]
		most := "-"
		if r.most > 0 {
			most = strconv.Itoa(r.most) + " times"
		}
		b.WriteString("| " + r.evidence + " | `" + r.outcome.String() + "` | " + again(r) + " | " + most + " |\n")
	}
	return b.String()
}

// The table of outcomes is a promise: whoever changes it changes this file,
// and the page for users, which holds the same text.
func TestTableOfOutcomes(t *testing.T) {
	const golden = "testdata/outcomes.golden"
	if *rewrite {
		if err := os.WriteFile(golden, []byte(table()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := table(); got != string(want) {
		t.Errorf("the table is\n%s\nwant\n%s", got, want)
	}
	page, err := os.ReadFile("../../docs/explanation/delivery.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), string(want)) {
		t.Error("docs/explanation/delivery.md does not hold the table")
	}
}

// No failure that may have been executed is sent again but by the row that
// asks whether that is harmless, and no two rows speak of the same failure.
func TestTableNeverRepeatsWhatMayHaveRun(t *testing.T) {
	for k := fault.Internal; k <= fault.Closed; k++ {
		for _, o := range []fault.Outcome{fault.Unknown, fault.NotSent, fault.Answered} {
			var rows []string
			for _, r := range rules {
				if r.outcome == o && (r.kinds == nil || slices.Contains(r.kinds, k)) {
					rows = append(rows, r.evidence)
				}
			}
			if len(rows) > 1 {
				t.Errorf("%s, %s: %q", k, o, rows)
			}
			for _, replay := range []config.Replay{config.ReplayNever, config.ReplaySafe} {
				a := &attempts{method: "tools/call", name: "q", replay: replay}
				if what := a.judge(&fault.Fault{Kind: k, Outcome: o}); o != fault.NotSent && what != giveUp {
					t.Errorf("%s, %s, replay %s: action %d", k, o, replay, what)
				}
			}
		}
	}
}

func TestHarmless(t *testing.T) {
	cat := tools2catalog("plain", "reader", "idem")
	cat.Items[catalog.Tools][1].ReadOnly = true
	cat.Items[catalog.Tools][2].Idempotent = true
	for _, c := range []struct {
		method, name        string
		never, safe, always bool
	}{
		{"tools/call", "plain", false, false, true},
		{"tools/call", "reader", false, true, true},
		{"tools/call", "idem", false, true, true},
		{"tools/call", "unknown", false, false, true},
		{"prompts/get", "p", false, true, true},
		{"resources/read", "u", false, true, true},
		{"completion/complete", "p", false, true, true},
		{"vendor/do", "", false, false, true},
	} {
		for replay, want := range map[config.Replay]bool{config.ReplayNever: c.never, config.ReplaySafe: c.safe, config.ReplayAlways: c.always} {
			if got := harmless(c.method, c.name, replay, cat); got != want {
				t.Errorf("%s %s, replay %s: %v", c.method, c.name, replay, got)
			}
		}
	}
	if harmless("tools/call", "reader", config.ReplaySafe, nil) {
		t.Error("without a catalog nothing is known to be harmless")
	}
}

// Hints are those of the generation that the call was bound to. A call that may
// have run is not sent to a generation that does not call repeating it
// harmless, though the one before did.
func TestHintsAreThoseOfTheBoundLife(t *testing.T) {
	hinted := tools2catalog("q")
	hinted.Items[catalog.Tools][0].ReadOnly = true
	plain := tools2catalog("q")
	for _, c := range []struct {
		name          string
		first, second *catalog.Catalog
		sends         int
	}{
		{"both harmless", hinted, hinted, 2},
		{"no longer harmless", hinted, plain, 1},
		{"harmless only later", plain, hinted, 1},
		{"the tool is gone", hinted, tools2catalog("other"), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := newServer("q")
			srv.list = func(_ context.Context, u *fake, _ int) (*catalogT, error) {
				if u.gen == 1 {
					return c.first, nil
				}
				return c.second, nil
			}
			srv.call = func(_ context.Context, u *fake, _ *upstream.Call) ([]byte, error) {
				if u.gen == 1 {
					u.end(errDied)
					return nil, errCut
				}
				return []byte(`{}`), nil
			}
			play(t, Options{}, srv, 0.5, func(b *bench) {
				_, err := b.Call(b.within(time.Minute), &upstream.Call{Method: "tools/call", Name: "q"}, config.ReplaySafe)
				if c.sends == 1 {
					b.wantKind(fault.From("", err), fault.Broken, fault.Unknown)
				} else if err != nil {
					t.Error(err)
				}
				synctest.Wait()
				if _, _, calls := srv.count(); calls != c.sends || b.Counts().Out != 0 {
					t.Errorf("%d sends, want %d; %d leases out", calls, c.sends, b.Counts().Out)
				}
			})
		})
	}
}

// A listing on the serving generation changes what it is known to offer.
func TestHintsFollowTheListing(t *testing.T) {
	srv := newServer("q")
	hinted := tools2catalog("q")
	hinted.Items[catalog.Tools][0].Idempotent = true
	srv.call = func(_ context.Context, u *fake, _ *upstream.Call) ([]byte, error) {
		if u.gen == 1 {
			u.end(errDied)
			return nil, errCut
		}
		return []byte(`{}`), nil
	}
	play(t, Options{}, srv, 0.5, func(b *bench) {
		srv.with(func() { srv.catalog = hinted })
		srv.fake(1).hooks.Changed(catalog.Tools)
		b.at(second)
		if _, err := b.Call(b.within(time.Minute), &upstream.Call{Method: "tools/call", Name: "q"}, config.ReplaySafe); err != nil {
			t.Error(err)
		}
	})
}

// Deadlines are the clients' choice: however many pass, they end no generation.
func TestDeadlinesAreNoStrikes(t *testing.T) {
	srv := newServer("a")
	srv.call = func(ctx context.Context, _ *fake, _ *upstream.Call) ([]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	play(t, Options{}, srv, 0.5, func(b *bench) {
		for range 10 {
			_, err := b.Call(b.within(second), &upstream.Call{Method: "tools/call", Name: "a"}, config.ReplaySafe)
			b.wantKind(fault.From("", err), fault.Deadline, fault.Unknown)
		}
		synctest.Wait()
		if st := b.View().State; st.Gen != 1 || st.CallStrikes != 0 {
			t.Errorf("%+v", st)
		}
		if n := count[event.CallFailed](b); n != 10 || b.Counts().Results[event.CallUnknown] != 10 {
			t.Errorf("%d failures told, %d counted", n, b.Counts().Results[event.CallUnknown])
		}
	})
}

// A listing that nobody answers is a strike, unless the server works on a call.
func TestListDeadlineIsAStrikeWhenNothingElseRuns(t *testing.T) {
	for _, c := range []struct {
		name string
		busy bool
		gen  uint64
	}{{"idle", false, 2}, {"busy", true, 1}} {
		t.Run(c.name, func(t *testing.T) {
			srv := newServer("a")
			srv.call = func(ctx context.Context, _ *fake, _ *upstream.Call) ([]byte, error) {
				return nil, sleep(ctx, 30*second)
			}
			play(t, Options{}, srv, 0.5, func(b *bench) {
				srv.with(func() {
					srv.list = func(_ context.Context, u *fake, _ int) (*catalogT, error) {
						if u.gen == 1 {
							return nil, errTimeout
						}
						return srv.catalog, nil
					}
				})
				done := make(chan struct{})
				go func() { // ends with its call
					defer close(done)
					if c.busy {
						_, _ = b.callNow(false)
					}
				}()
				synctest.Wait()
				srv.fake(1).hooks.Changed(catalog.Tools)
				b.at(10 * second)
				if g := b.View().State.Gen; g != c.gen {
					t.Errorf("generation %d, want %d", g, c.gen)
				}
				<-done
			})
		})
	}
}
