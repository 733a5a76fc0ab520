package daemon

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/admin"
)

func TestWhatIsOpenToEverybody(t *testing.T) {
	for _, c := range []struct {
		address string
		clients config.Clients
		auth    bool
		want    string
	}{
		{"127.0.0.1:7433", config.ClientsSameUser, false, ""},
		{"[::1]:7433", config.ClientsSameUser, false, ""},
		{"0.0.0.0:7433", config.ClientsSameUser, false, "network"},
		{"[::]:7433", config.ClientsSameUser, true, ""},
		{"127.0.0.1:7433", config.ClientsAnyLocal, false, "machine"},
		{"192.0.2.1:7433", config.ClientsAnyLocal, false, "network machine"},
		{"", config.ClientsSameUser, false, ""},
	} {
		cfg := config.New()
		cfg.Clients, cfg.Access.Demanded = c.clients, c.auth
		var got []string
		for _, e := range exposures(cfg, c.address) {
			got = append(got, e.To)
			if e.Text == "" || e.Remedy == "" {
				t.Errorf("%+v: %+v", c, e)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v: open to %v", c, got)
		}
	}
}

// The log says it at the start, when it begins, and every day again for as long as it is so.
func TestTheLogSaysWhatIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards out and now
		var out bytes.Buffer
		var now []admin.Exposure
		set := func(all ...admin.Exposure) {
			mu.Lock()
			defer mu.Unlock()
			now = all
		}
		ctx, cancel := context.WithCancel(t.Context())
		changed, done := make(chan struct{}, 1), make(chan struct{})
		one, two := admin.Exposure{Text: "one"}, admin.Exposure{Text: "two"}
		set(one)
		go func() { // ends with ctx
			defer close(done)
			sayExposed(ctx, slog.New(slog.NewTextHandler(lockedWriter{&mu, &out}, nil)), func() []admin.Exposure {
				mu.Lock()
				defer mu.Unlock()
				return now
			}, changed)
		}()
		want := func(when string, ones, twos int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			said := out.String()
			mu.Unlock()
			if a, b := strings.Count(said, "level=WARN msg=one"), strings.Count(said, "level=WARN msg=two"); a != ones || b != twos {
				t.Errorf("%s: it was said %d and %d times, want %d and %d", when, a, b, ones, twos)
			}
		}
		want("at the start", 1, 0)
		time.Sleep(24*time.Hour - time.Second)
		want("within the day", 1, 0)
		time.Sleep(time.Second)
		want("after a day", 2, 0)
		set(one, two)
		changed <- struct{}{}
		want("when the other begins", 2, 1)
		time.Sleep(24 * time.Hour)
		want("after two days", 3, 2)
		set()
		time.Sleep(48 * time.Hour)
		want("when it is over", 3, 2)
		cancel()
		<-done
	})
}

// A lockedWriter is written to by one goroutine, and read by another.
type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(p)
}
