// Package demo is the proof in half a minute: a gateway with two built-in
// servers, clients that call at a steady rate, and servers that are killed on
// a schedule. It is a user of everline like any other, and no part of it.
package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/internal/gateway"
)

// Options say how the demo runs.
type Options struct {
	For     time.Duration     // how long calls are made and servers broken
	Every   time.Duration     // time between two faults; 1.5 s
	Listen  string            // address of the endpoint; "127.0.0.1:0"
	Command []string          // starts the built-in stdio server; "NAME LEDGER" is added
	Live    func(Report)      // called about five times a second; may be nil
	Emit    func(event.Event) // of the gateway's hub; may be nil
}

// The names of the two servers.
const (
	childName  = "child"
	remoteName = "remote"
)

// A Demo is a running gateway with its two servers.
type Demo struct {
	opts   Options
	dir    string
	ledger string
	remote *remote
	hub    *everline.Hub
	front  *gateway.Gateway
	http   *http.Server
	served chan struct{} // closed when http's Serve has returned
	url    string
	tally  tally
}

// Start brings the gateway and its servers up. The caller must Close the demo.
func Start(ctx context.Context, opts Options) (*Demo, error) {
	if opts.Every <= 0 {
		opts.Every = 1500 * time.Millisecond
	}
	if opts.Listen == "" {
		opts.Listen = "127.0.0.1:0"
	}
	dir, err := os.MkdirTemp("", "everline-demo-")
	if err != nil {
		return nil, err
	}
	d := &Demo{opts: opts, dir: dir, ledger: filepath.Join(dir, "ledger"), served: make(chan struct{})}
	if err := d.start(ctx); err != nil {
		return nil, errors.Join(err, d.Close(ctx))
	}
	return d, nil
}

func (d *Demo) start(ctx context.Context) error {
	s, err := newServer(remoteName, d.ledger)
	if err != nil {
		return err
	}
	if d.remote, err = startRemote(s); err != nil {
		return err
	}
	cfg, err := d.config()
	if err != nil {
		return err
	}
	if d.hub, err = everline.Open(ctx, cfg, everline.Options{Name: "everline-demo", StateDir: d.StateDir(), Emit: d.opts.Emit}); err != nil {
		return err
	}
	d.front = gateway.ForHub(d.hub, gateway.Options{})
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", d.opts.Listen)
	if err != nil {
		return err
	}
	d.url = "http://" + l.Addr().String() + "/mcp"
	d.http = gateway.Server(d.front.Handler())
	go func() { // ends when Close closes the server
		defer close(d.served)
		_ = d.http.Serve(l) // always ErrServerClosed: Close is the only way out
	}()
	for _, name := range []string{childName, remoteName} {
		if _, err := d.hub.Await(ctx, name, 0); err != nil {
			return fmt.Errorf("waiting for the built-in server %s: %w", name, err)
		}
	}
	return nil
}

func (d *Demo) config() (*config.Config, error) {
	text := fmt.Sprintf(`{"mcpServers":{%q:{"command":%q,"args":%s},%q:{"type":"http","url":%q}}}`,
		childName, d.opts.Command[0], quoteAll(append(d.opts.Command[1:len(d.opts.Command):len(d.opts.Command)], childName, d.ledger)), remoteName, d.remote.url())
	return config.Parse("the demo's configuration", []byte(text), os.LookupEnv)
}

// URL is the address of the demo's endpoint.
func (d *Demo) URL() string { return d.url }

// Hub is the demo's own, which ends with Close.
func (d *Demo) Hub() *everline.Hub { return d.hub }

// StateDir is the folder for the hub's state, which is removed by Close.
func (d *Demo) StateDir() string { return filepath.Join(d.dir, "state") }

// Run makes calls and breaks servers for Options.For, then checks the ledger
// and reports.
func (d *Demo) Run(ctx context.Context) (Report, error) {
	ctx, cancel := context.WithTimeout(ctx, d.opts.For)
	defer cancel()
	d.tally.begin()
	var wg sync.WaitGroup
	errs := make([]error, len(d.loops()))
	for i, loop := range d.loops() {
		wg.Go(func() { errs[i] = loop(ctx) })
	}
	if d.opts.Live != nil {
		wg.Go(func() { d.show(ctx) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return Report{}, err
	}
	if err := d.tally.check(d.ledger); err != nil {
		return Report{}, err
	}
	return d.tally.report(), nil
}

func (d *Demo) loops() []func(context.Context) error {
	loops := []func(context.Context) error{d.listLoop, d.breakLoop}
	for _, name := range []string{childName, remoteName} {
		for range 2 { // two clients per server
			loops = append(loops, func(ctx context.Context) error { return d.callLoop(ctx, name) })
		}
	}
	return loops
}

func (d *Demo) show(ctx context.Context) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			d.opts.Live(d.tally.report())
		case <-ctx.Done():
			return
		}
	}
}

// breakLoop kills the child with -9, and restarts the remote server with all
// sessions lost, in turn; each time it measures how long the next call takes.
// Between two faults it measures what the child needs to start without
// everline, under the same load.
func (d *Demo) breakLoop(ctx context.Context) error {
	c, err := dial(ctx, d.url)
	if err != nil {
		return err
	}
	tick := time.NewTicker(d.opts.Every)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if until, ok := ctx.Deadline(); ok && time.Until(until) < time.Second {
			return nil // what is broken now would not be seen to recover
		}
		name, fault := childName, d.killChild
		if n%2 == 1 {
			name, fault = remoteName, d.remote.restart
		}
		if err := fault(); err != nil {
			return fmt.Errorf("breaking %s: %w", name, err)
		}
		broken := time.Now()
		d.call(ctx, c, name, "look", fmt.Sprintf("after-fault-%d", n))
		d.tally.recovered(time.Since(broken), name == childName)
		if name == childName {
			continue
		}
		select {
		case <-time.After(d.opts.Every / 2):
		case <-ctx.Done():
			return nil
		}
		start, err := d.timeStart(ctx)
		if err != nil {
			return err
		}
		d.tally.started(start)
	}
}

func (d *Demo) killChild() error {
	st, ok := d.hub.Server(childName)
	if !ok || st.PID == 0 {
		return errors.New("the child has no process")
	}
	p, err := os.FindProcess(st.PID)
	if err != nil {
		return err
	}
	return p.Signal(syscall.SIGKILL)
}

// Close ends the gateway and both servers, and removes the demo's folder.
func (d *Demo) Close(ctx context.Context) error {
	var errs []error
	if d.http != nil {
		errs = append(errs, d.front.Close(ctx), d.http.Close())
		<-d.served
	}
	if d.hub != nil {
		errs = append(errs, d.hub.Close(ctx))
	}
	if d.remote != nil {
		d.remote.stop()
		errs = append(errs, d.remote.server.ledger.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(d.dir))...)
}
