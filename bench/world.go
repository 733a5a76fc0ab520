package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/everline/everline/bench/internal/drive"
	"github.com/everline/everline/bench/internal/echo"
	"github.com/everline/everline/bench/internal/proc"
)

// startLimit bounds how long a gateway may take to list everything.
const startLimit = 90 * time.Second

// A need is what servers a world has.
type need struct {
	kind    string
	servers int
	tools   int           // of each
	delay   time.Duration // before a server answers anything
	shared  bool          // servers over HTTP are paths of one process
	// process, if not nil, makes of the command line of server i another.
	process func(i int, argv []string) []string
}

type server struct {
	name string
	argv []string // its process
	url  string   // "" over stdio
}

// A world is one target in front of its servers, running.
type world struct {
	d       *driver
	t       *target
	dir     string
	kind    string
	tools   int // in all
	servers []*server
	execs   string // file of executions
	port    int
	debug   int
	godebug string // for everline's process

	plan
	sites    []*proc.Process // of servers over HTTP, each in the place of its server
	gateways []*proc.Process
	http     *http.Client
	started  time.Time
}

// start runs a target in front of new servers and returns once it listens.
func (d *driver) start(ctx context.Context, t *target, n need) (*world, error) {
	return d.startWith(ctx, t, n, func(*world) {})
}

func (d *driver) startWith(ctx context.Context, t *target, n need, change func(*world)) (*world, error) {
	d.started++
	w := &world{d: d, t: t, kind: n.kind, tools: n.servers * n.tools, http: drive.NewHTTP()}
	w.dir = filepath.Join(d.dir, fmt.Sprintf("%03d-%s-%s", d.started, t.name, n.kind))
	w.execs = filepath.Join(w.dir, "executions")
	if err := os.MkdirAll(w.dir, 0o755); err != nil {
		return nil, err
	}
	change(w)
	err := w.makeServers(ctx, n)
	if err == nil {
		if w.plan, err = t.plan(w); err == nil {
			err = w.launch(ctx)
		}
	}
	if err != nil {
		w.stop()
		return nil, err
	}
	return w, nil
}

func (w *world) makeServers(ctx context.Context, n need) (err error) {
	if w.port, err = proc.FreePort(); err != nil {
		return err
	}
	if w.debug, err = proc.FreePort(); err != nil {
		return err
	}
	w.sites = make([]*proc.Process, n.servers)
	for i := range n.servers {
		o := echo.Options{Name: fmt.Sprintf("s%d", i+1), Make: w.d.make, Tools: n.tools, Log: w.execs, Delay: n.delay}
		s := &server{name: o.Name}
		w.servers = append(w.servers, s)
		switch {
		case n.kind == stdio || n.kind == mixed && i < n.servers/2:
			s.argv = echo.Argv(w.d.exe, o)
			if n.process != nil {
				s.argv = n.process(i, s.argv)
			}
			continue
		case n.shared && i > 0:
			s.url = strings.TrimSuffix(w.servers[0].url, "mcp") + fmt.Sprintf("%d/mcp", i)
			continue
		}
		port, err := proc.FreePort()
		if err != nil {
			return err
		}
		o.Listen = fmt.Sprintf("127.0.0.1:%d", port)
		s.url, s.argv = "http://"+o.Listen+"/mcp", echo.Argv(w.d.exe, o)
		if err := w.startSite(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// startSite runs server i, which is one over HTTP.
func (w *world) startSite(ctx context.Context, i int) error {
	p, err := proc.Start(proc.Command{Argv: w.servers[i].argv, Log: filepath.Join(w.dir, "servers.log")})
	if err != nil {
		return err
	}
	w.sites[i] = p
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return proc.WaitPort(ctx, strings.TrimSuffix(strings.TrimPrefix(w.servers[i].url, "http://"), "/mcp"))
}

// launch starts the gateway and waits until it listens.
func (w *world) launch(ctx context.Context) error {
	w.started = time.Now()
	for _, c := range w.commands {
		c.Log = filepath.Join(w.dir, "gateway.log")
		p, err := proc.Start(c)
		if err != nil {
			return err
		}
		w.gateways = append(w.gateways, p)
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for _, u := range w.urls {
		if err := proc.WaitPort(ctx, hostPort(u)); err != nil {
			return fmt.Errorf("%s does not listen: %w%s", w.t.name, err, w.tail())
		}
	}
	return nil
}

// relaunch ends the gateway and starts it again with what it has kept on disk.
func (w *world) relaunch(ctx context.Context) error {
	w.stopGateways()
	return w.launch(ctx)
}

func hostPort(url string) string {
	address, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	return address
}

// tail is the end of what the gateway has written, for errors.
func (w *world) tail() string {
	b, err := os.ReadFile(filepath.Join(w.dir, "gateway.log"))
	if err != nil || len(b) == 0 {
		return ""
	}
	return "\n" + string(b[max(0, len(b)-1000):])
}

func (w *world) address() string      { return fmt.Sprintf("127.0.0.1:%d", w.port) }
func (w *world) debugAddress() string { return fmt.Sprintf("127.0.0.1:%d", w.debug) }

// config writes the mcpServers file that most gateways read, with further keys
// of everline's, and returns its path.
func (w *world) config(ours map[string]any) string {
	servers := map[string]any{}
	for _, s := range w.servers {
		if s.url == "" {
			servers[s.name] = map[string]any{"command": s.argv[0], "args": s.argv[1:]}
		} else {
			servers[s.name] = map[string]any{"type": "http", "url": s.url}
		}
	}
	all := map[string]any{"mcpServers": servers}
	if ours != nil {
		all["everline"] = ours
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic("bug: a configuration cannot be encoded: " + err.Error())
	}
	path := filepath.Join(w.dir, "servers.json")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		w.d.say("%s: %v", path, err) // the gateway then says that it is missing
	}
	return path
}

func (w *world) stopGateways() {
	for _, p := range w.gateways {
		p.Stop()
	}
	w.gateways = nil
	w.http.CloseIdleConnections()
}

func (w *world) stop() {
	w.stopGateways()
	for _, p := range w.sites {
		if p != nil {
			p.Kill()
		}
	}
}

// open opens n sessions at the first endpoint; without a gateway one session is
// shared, as its one client would share it.
func (w *world) open(ctx context.Context, n int) ([]drive.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	all := make([]drive.Session, 0, n)
	for i := range n {
		var s drive.Session
		var err error
		switch {
		case !w.direct:
			s, err = drive.Open(ctx, w.http, w.urls[0])
		case i == 0:
			s, err = drive.Spawn(ctx, w.servers[0].argv)
		default:
			s = all[0]
		}
		if err != nil {
			closeAll(all)
			return nil, fmt.Errorf("session %d: %w%s", i+1, err, w.tail())
		}
		all = append(all, s)
	}
	return all, nil
}

func closeAll(sessions []drive.Session) {
	for i, s := range sessions {
		if i == 0 || s != sessions[0] {
			s.Close()
		}
	}
}

// ready waits until all tools are listed, over all endpoints, and tells when
// the first list was answered, and when the first complete one was, since the
// start.
func (w *world) ready(ctx context.Context) (first, full time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	got := make([]int, len(w.urls))
	for {
		total := 0
		for i, url := range w.urls {
			if got[i] < w.tools/len(w.urls) {
				var n int
				if n, err = countTools(ctx, w.http, url); err == nil {
					got[i] = n
				}
			}
			total += got[i]
		}
		if first == 0 && total > 0 {
			first = time.Since(w.started)
		}
		if total >= w.tools {
			return first, time.Since(w.started), nil
		}
		select {
		case <-ctx.Done():
			return first, 0, errors.Join(fmt.Errorf("%s lists %d of %d tools after %v%s", w.t.name, total, w.tools, startLimit, w.tail()), err)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func countTools(ctx context.Context, c *http.Client, url string) (int, error) {
	s, err := drive.Open(ctx, c, url)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	names, err := drive.Tools(ctx, s)
	return len(names), err
}

// pids of the gateway's processes.
func (w *world) pids() []int {
	var pids []int
	for _, p := range w.gateways {
		pids = append(pids, p.PID())
	}
	return pids
}

func (w *world) isServer(argv []string) bool { return echo.Is(w.d.exe, argv) }

// usage is what the gateway and its servers have used so far.
func (w *world) usage(direct drive.Session) proc.Usage {
	u := proc.Split(w.pids(), w.isServer)
	for _, p := range w.sites {
		if p == nil {
			continue
		}
		if s, err := proc.Read(p.PID()); err == nil {
			u.Servers += s.CPU
		}
	}
	if pid := drive.PID(direct); pid != 0 {
		if s, err := proc.Read(pid); err == nil {
			u.Servers += s.CPU
		}
	}
	return u
}
