//go:build unix

package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/gateway"
	"github.com/everline/everline/internal/history"
)

// newNotified is a daemon on a hub, and what its service manager hears.
func newNotified(t *testing.T, emit func(event.Event)) (*daemon, func() string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	cfg := config.New()
	s := config.NewServer("gone")
	s.Command, s.Required = filepath.Join(t.TempDir(), "none"), true
	cfg.Servers = []config.Server{s}
	d := &daemon{journal: admin.NewJournal(), parts: parts{Options: Options{Log: slog.New(slog.DiscardHandler)}, stateDir: t.TempDir(), found: Loaded{Config: cfg}}}
	d.hub, err = everline.Open(t.Context(), cfg, everline.Options{Emit: func(e event.Event) {
		emit(e)
		d.journal.Record(e)
	}})
	if err != nil {
		t.Fatal(err)
	}
	d.gateway = gateway.ForHub(d.hub, gateway.Options{})
	d.api = admin.New(admin.Options{Hub: d.hub, Journal: d.journal, Stuck: d.stuck})
	d.base, d.end = context.WithCancel(context.Background())
	t.Cleanup(func() {
		d.end()
		d.running.Wait()
		_ = d.gateway.Close(context.Background())
		if err := d.hub.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return d, func() string {
		if err := l.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 4096)
		n, err := l.Read(buf)
		if err != nil {
			return err.Error()
		}
		return string(buf[:n])
	}
}

// The service manager hears how the servers are, and that all is well.
func TestServiceManagerIsTold(t *testing.T) {
	d, heard := newNotified(t, func(event.Event) {})
	t.Setenv("WATCHDOG_USEC", "200000")
	t.Setenv("WATCHDOG_PID", fmt.Sprint(os.Getpid()))
	d.running.Go(d.tellSystemd)
	var watchdogs int
	var status string
	for range 200 {
		switch text := heard(); {
		case text == "WATCHDOG=1":
			watchdogs++
		case strings.HasPrefix(text, "STATUS="):
			status = text
		default:
			t.Fatal(text)
		}
		if watchdogs > 2 && strings.HasPrefix(status, "STATUS=0 of 1 connected; gone away since ") {
			return
		}
	}
	t.Errorf("%d beats, %q", watchdogs, status)
}

// A reload by a signal ends for the service manager whatever comes of it: it waits for
// that, also where the files are refused.
func TestServiceManagerHearsOfEveryReload(t *testing.T) {
	d, heard := newNotified(t, func(event.Event) {})
	d.reloading, d.history = make(chan struct{}, 1), history.New()
	for _, bad := range []error{errors.New("a comma is missing"), nil} {
		d.load = func() (*config.Config, error) { return d.hub.Config(), bad }
		d.reloadNow(t.Context())
		if text := heard(); !strings.HasPrefix(text, "RELOADING=1\n") || runtime.GOOS == "linux" && !strings.Contains(text, "MONOTONIC_USEC=") {
			t.Errorf("%v: %q", bad, text)
		}
		if text := heard(); !strings.HasPrefix(text, "READY=1\nSTATUS=0 of 1 connected") {
			t.Errorf("%v: %q", bad, text)
		}
	}
	if _, err := d.reload(t.Context(), true); err != nil { // which only asks
		t.Error(err)
	}
	d.beat()
	if text := heard(); text != "WATCHDOG=1" {
		t.Errorf("%q", text)
	}
}

// A supervisor that hangs is named, the service manager hears nothing, and what
// every goroutine was at is kept.
func TestWhatHangsIsNamed(t *testing.T) {
	hang, held := make(chan struct{}), make(chan struct{}, 100)
	var planted atomic.Bool
	d, _ := newNotified(t, func(event.Event) {
		if planted.Load() {
			held <- struct{}{}
			<-hang
		}
	})
	defer close(hang)
	planted.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_ = d.hub.Reconnect(ctx, "gone") // its loop hangs in what comes of it
	<-held
	w := httptest.NewRecorder()
	d.api.Healthz(w, httptest.NewRequest(http.MethodGet, "/healthz", nil))
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "the supervisor of gone does not answer") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for range hangsKept + 2 {
		d.beat()
		time.Sleep(2 * time.Millisecond)
	}
	files, err := filepath.Glob(filepath.Join(d.parts.stateDir, "hang-*.txt"))
	if err != nil || len(files) != hangsKept {
		t.Fatalf("%v, %v", files, err)
	}
	text, err := os.ReadFile(slices.Max(files))
	if err != nil || !strings.Contains(string(text), "TestWhatHangsIsNamed") {
		t.Errorf("%v", err)
	}
}
