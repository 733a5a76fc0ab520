package watch

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A wire is a network on which one address refuses until it is opened.
type wire struct {
	mu    sync.Mutex
	open  bool
	looks []time.Time
	wrote bool
}

type end struct {
	net.Conn
	w *wire
}

func (e end) Write(b []byte) (int, error) { e.w.wrote = true; return len(b), nil }
func (e end) Close() error                { return nil }

func (w *wire) dial(context.Context, string, string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks = append(w.looks, time.Now())
	if !w.open {
		return nil, syscall.ECONNREFUSED
	}
	return end{w: w}, nil
}

func (w *wire) set(open bool) { w.mu.Lock(); defer w.mu.Unlock(); w.open = open }

// TestFaultS21OneWatchForAll: a hundred slots wait for one address. It is looked
// immediately each 100 ms, for all of them together, nothing is sent, and all hear of
// it within 150 ms.
func TestFaultS21OneWatchForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		p := &Ports{Dial: w.dial}
		at := Address{"tcp", "127.0.0.1:9"}
		start := time.Now()
		var heard []time.Duration
		var mu sync.Mutex
		var opened time.Time
		var slots sync.WaitGroup
		for range 100 {
			slots.Go(func() {
				if !p.Wait(t.Context(), at, start.Add(30*time.Second)) {
					t.Error("it was not heard of")
				}
				mu.Lock()
				defer mu.Unlock()
				heard = append(heard, time.Since(opened))
			})
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		n := len(w.looks)
		if n < 100 || n > 200 {
			t.Errorf("%d looks in ten seconds", n)
		}
		mu.Lock()
		opened = time.Now()
		mu.Unlock()
		w.set(true)
		slots.Wait()
		if late := slices.Max(heard); len(heard) != 100 || late > 150*time.Millisecond {
			t.Errorf("%d heard of it, the last after %s", len(heard), late)
		}
		synctest.Wait()
		if w.wrote {
			t.Error("something was sent")
		}
		if len(p.open) != 0 {
			t.Error("the address is still looked at")
		}
	})
}

// TestFaultS21SlowerLater: after the first seconds it is looked immediately a
// second, each address by itself, and not at all when nobody waits any more.
func TestFaultS21SlowerLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		p := &Ports{Dial: w.dial}
		ctx, cancel := context.WithTimeout(t.Context(), 130*time.Second)
		defer cancel()
		if p.Wait(ctx, Address{"tcp", "127.0.0.1:9"}, time.Now().Add(30*time.Second)) {
			t.Error("it is not back")
		}
		synctest.Wait()
		early := slices.IndexFunc(w.looks, func(at time.Time) bool { return at.Sub(w.looks[0]) > 30*time.Second })
		if late := len(w.looks) - early; early < 300 || late < 100 || late > 200 {
			t.Errorf("%d looks in the first 30 s, %d in the 100 s after that", early, late)
		}
		n := len(w.looks)
		time.Sleep(time.Minute)
		if len(w.looks) != n {
			t.Error("it is looked at and nobody waits")
		}
	})
}

// TestFaultS21WhoLeavesAndComes: who gives up takes nothing from the others, and
// who comes after a success looks anew.
func TestFaultS21WhoLeavesAndComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		p := &Ports{Dial: w.dial}
		at := Address{"tcp", "127.0.0.1:9"}
		ctx, leave := context.WithCancel(t.Context())
		var one, two bool
		var done sync.WaitGroup
		done.Go(func() { one = p.Wait(ctx, at, time.Time{}) })
		done.Go(func() { two = p.Wait(t.Context(), at, time.Time{}) })
		time.Sleep(5 * time.Second)
		leave()
		synctest.Wait()
		w.set(true)
		done.Wait()
		if one || !two {
			t.Errorf("who gave up heard %v, who stayed %v", one, two)
		}
		w.set(false)
		again, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if p.Wait(again, at, time.Time{}) {
			t.Error("an old success was heard")
		}
	})
}

// closedPort is an address at which nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// get is the error of a request through an optional proxy.
func get(t *testing.T, target, proxy string) error {
	t.Helper()
	tr := &http.Transport{}
	if proxy != "" {
		tr.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: proxy})
	}
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := tr.RoundTrip(req)
	if err == nil {
		_ = resp.Body.Close()
		t.Fatalf("%s answered", target)
	}
	return err
}

func TestRefused(t *testing.T) {
	closed := closedPort(t)
	_, port, _ := net.SplitHostPort(closed)
	socket := filepath.Join(t.TempDir(), "s")
	var none net.Dialer
	_, noSocket := none.DialContext(t.Context(), "unix", socket)
	for name, c := range map[string]struct {
		url  string
		err  error
		want Address
	}{
		"a port":            {"http://" + closed + "/mcp?key=x", get(t, "http://"+closed+"/", ""), Address{"tcp", closed}},
		"a name":            {"http://localhost:" + port + "/mcp", get(t, "http://localhost:"+port+"/", ""), Address{"tcp", "localhost:" + port}},
		"the usual port":    {"HTTPS://example.com/mcp", get(t, "http://"+closed+"/", ""), Address{"tcp", "example.com:443"}},
		"a proxy":           {"http://192.0.2.1/mcp", get(t, "http://192.0.2.1/", closed), Address{"tcp", closed}},
		"a proxy, with TLS": {"https://192.0.2.1/mcp", get(t, "https://192.0.2.1/", closed), Address{"tcp", closed}},
		"a socket":          {"unix://" + socket, noSocket, Address{"unix", socket}},
		"an end of stream":  {"http://" + closed, io.EOF, Address{}},
		"a silent host":     {"http://" + closed, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}, Address{}},
		"a reset":           {"http://" + closed, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}, Address{}},
		"no such name":      {"http://nowhere.invalid", &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host"}}, Address{}},
		"no error":          {"http://" + closed, nil, Address{}},
		"not a connection":  {"http://" + closed, errors.Join(fs.ErrNotExist), Address{}},
	} {
		if got := Refused(c.url, c.err); got != c.want {
			t.Errorf("%s: %v, want %v (%v)", name, got, c.want, c.err)
		}
	}
}

// TestFaultS18Files changes one file after the other behind a command's back.
func TestFaultS18Files(t *testing.T) {
	write := func(t *testing.T, path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, change := range map[string]func(t *testing.T, dir string){
		"the program is installed":     func(t *testing.T, dir string) { write(t, filepath.Join(dir, "bin", "srv"), "x") },
		"in the second folder of PATH": func(t *testing.T, dir string) { write(t, filepath.Join(dir, "bin2", "srv"), "x") },
		"the script is repaired":       func(t *testing.T, dir string) { write(t, filepath.Join(dir, "work", "server.js"), "repaired") },
		"the script is replaced":       func(t *testing.T, dir string) { replace(t, filepath.Join(dir, "work", "server.js")) },
		"a file behind a flag appears": func(t *testing.T, dir string) { write(t, filepath.Join(dir, "work", "c.json"), "{}") },
		"the packages are installed":   func(t *testing.T, dir string) { write(t, filepath.Join(dir, "work", "package-lock.json"), "{}") },
		"the packages are linked": func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "work", "node_modules", ".package-lock.json"), "")
		},
		"nothing but a log is written": func(t *testing.T, dir string) { write(t, filepath.Join(dir, "work", "server.log"), "x") },
		"a file that is no argument":   func(t *testing.T, dir string) { write(t, filepath.Join(dir, "work", "verbose"), "x") },
		"nothing":                      func(*testing.T, string) {},
	} {
		quiet := name == "nothing" || name == "nothing but a log is written" || name == "a file that is no argument"
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "work", "server.js"), "broken")
			c := Command{
				Name: "srv", Args: []string{"server.js", "--config=c.json", "verbose", "https://example.com/x.js"},
				Dir: filepath.Join(dir, "work"), Path: filepath.Join(dir, "bin") + string(os.PathListSeparator) + filepath.Join(dir, "bin2"),
			}
			synctest.Test(t, func(t *testing.T) { // real files, the bubble's clock
				files := Look(c)
				time.AfterFunc(7*time.Second, func() { change(t, dir) })
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				start := time.Now()
				back := files.Wait(ctx, start.Add(30*time.Second))
				if took := time.Since(start) - 7*time.Second; back == quiet || !quiet && took > time.Second {
					t.Errorf("heard of it: %v, %s after it happened", back, took)
				}
			})
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// replace puts another file of the same size and time in the place of one.
func replace(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	must(t, os.WriteFile(path+".new", make([]byte, info.Size()), info.Mode()))
	must(t, os.Chtimes(path+".new", info.ModTime(), info.ModTime()))
	must(t, os.Rename(path+".new", path))
}

// TestFaultS18WhileItStarted: a repair that comes between the look and the wait
// is not missed, and a file that grows is waited for.
func TestFaultS18WhileItStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "srv")
		files := Look(Command{Name: path})
		f, err := os.Create(path)
		must(t, err)
		defer f.Close()
		grown := time.Now().Add(5 * time.Second)
		var writer sync.WaitGroup
		writer.Go(func() {
			for time.Now().Before(grown) {
				_, _ = f.WriteString("more")
				time.Sleep(20 * time.Millisecond)
			}
		})
		if !files.Wait(t.Context(), grown.Add(time.Minute)) {
			t.Error("the repair was missed")
		}
		if early := time.Until(grown); early > 0 {
			t.Errorf("it was used %s before it was whole", early)
		}
		writer.Wait()

		whole := filepath.Join(t.TempDir(), "srv")
		files = Look(Command{Name: whole})
		must(t, os.WriteFile(whole, []byte("x"), 0o700))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if !files.Wait(ctx, time.Now().Add(time.Minute)) {
			t.Error("a repair that was over before the wait was missed")
		}
	})
}
