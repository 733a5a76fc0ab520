package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/fileedit"
	"github.com/everline/everline/internal/gateway"
)

// serveFlags are the flags of serve and stdio.
type serveFlags struct {
	configs     []string
	format      string
	listen      string
	allowRemote bool
	hosts       []string
	origins     []string
	watch       bool
	logFormat   string
	logLevel    string
	group       string     // of stdio
	ask         config.Ask // answers the inputs of VS Code files; nil answers none
}

func (f *serveFlags) addCommon(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.configs, "config", "c", nil, "configuration file; may be given more than once (default: ./everline.json, then the user's)")
	flags.StringVar(&f.format, "format", "", formatFlag())
	flags.StringVar(&f.logFormat, "log-format", "text", "text or json")
	flags.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
}

func newServe(a *app) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the gateway",
		Long: "Run the gateway: keep every configured server connected, and serve all of them as one\n" +
			"MCP endpoint. It listens at once, whatever the servers do.\n\n" +
			"A change of the configuration files is taken up by itself, and by everline reload and SIGHUP. SIGTERM or Ctrl-C ends it after the calls in flight,\n" +
			"a second one at once.",
		Args: cobra.NoArgs,
		RunE: runE(func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), f) }),
	}
	f.addCommon(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&f.listen, "listen", "l", "", "address to serve on (default: the configuration's, 127.0.0.1:7433)")
	flags.BoolVar(&f.watch, "watch", true, "take up changes of the configuration files by itself")
	flags.BoolVar(&f.allowRemote, "allow-remote", false, "allow an address that other machines can reach; everline checks no identity there")
	flags.StringArrayVar(&f.hosts, "allow-host", nil, "name, besides the loopback ones, under which clients may reach the endpoint")
	flags.StringArrayVar(&f.origins, "allow-origin", nil, "web origin whose pages may use the endpoint, such as http://localhost:6274")
	return cmd
}

func (f serveFlags) logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return nil, usage("--log-level info", "unknown log level %q", f.logLevel)
	}
	opts := &slog.HandlerOptions{Level: level}
	switch f.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	default:
		return nil, usage("--log-format text", "unknown log format %q", f.logFormat)
	}
}

// A loaded is a configuration with the files that it was read from.
type loaded struct {
	cfg   *config.Config
	files []string
	seen  contents // that were parsed
}

// load finds and reads the configuration.
func (f serveFlags) load(stateDir string) (loaded, error) {
	files, err := configFiles(f.configs)
	if err != nil {
		return loaded{}, err
	}
	l := loaded{files: files, seen: contents{}}
	l.cfg, err = f.read(l.seen.read, stateDir, files)
	return l, err
}

// reload reads the same files again. What came through a pipe is gone, and to
// open one would wait for a writer.
func (f serveFlags) reload(stateDir string, files []string) func() (*config.Config, error) {
	return func() (*config.Config, error) {
		for _, file := range files {
			if readOnce(file) {
				return nil, &fault.Fault{
					Kind: fault.Invalid, Op: opConfig, Outcome: fault.NotSent, Err: errors.New(file + " is no regular file: it was read once, at the start"),
					Remedy: "restart everline, or name a file with --config",
				}
			}
		}
		return f.read(config.ReadFile, stateDir, files)
	}
}

// read is what was trusted: a file that changes in between is refused.
func (f serveFlags) read(read func(string) ([]byte, error), stateDir string, files []string) (*config.Config, error) {
	if err := checkTrust(stateDir, f.configs, files, nil); err != nil {
		return nil, err
	}
	cfg, err := config.LoadFrom(read, f.ask, f.format, files...)
	if err != nil {
		return nil, err
	}
	return cfg, checkTrust(stateDir, f.configs, files, cfg)
}

func configMissing(tried []string) error {
	return &fault.Fault{
		Kind: fault.Invalid, Op: opConfig, Outcome: fault.NotSent, Remedy: "everline serve --config FILE",
		Err: errors.New("no configuration file was named, and none of these exists: " + strings.Join(tried, ", ")),
	}
}

func (a *app) serve(ctx context.Context, f serveFlags) error {
	log, err := f.logger(a.err)
	if err != nil {
		return err
	}
	inputs := a.newAsker()
	f.ask = inputs.ask
	found, err := f.load(a.stateDir)
	inputs.done() // whoever reloads is not at this terminal
	if err != nil {
		return err
	}
	cfg := found.cfg
	address, configured := f.listen, ""
	if address == "" {
		address, configured = cfg.Listen, cfg.Listen
	}
	if err := mayListen(address, f.allowRemote); err != nil {
		return err
	}
	socket, err := admin.Listen(a.stateDir)
	if err != nil {
		return err
	}
	defer func() { _ = socket.Close() }() // the program ends with it
	listener, err := listen(ctx, address)
	if err != nil {
		return err
	}
	joinChain(found.files) // itself among its servers would not get the address
	stop, reload := make(chan os.Signal, 2), make(chan os.Signal, 1)
	signal.Notify(stop, stopSignals...)
	if len(reloadSignals) > 0 {
		signal.Notify(reload, reloadSignals...)
	}
	d, err := startDaemon(ctx, daemonOptions{
		config: cfg, files: found.files, load: f.reload(a.stateDir, found.files), stateDir: a.stateDir, socket: socket, log: log,
		endpoint: "http://" + listener.Addr().String() + "/mcp", listen: configured,
		gateway: gateway.Options{Version: buildVersion(), Hosts: f.hosts, Origins: f.origins},
	})
	if err != nil {
		listener.Close()
		return err
	}
	d.server = d.serve(d.gateway.Listener(listener), d.endpoint())
	if f.watch {
		d.watchFiles(found.seen)
	}
	a.greet(d, cfg)
	logWarnings(log, cfg)
	notifySystemd("READY=1")
	return d.untilStopped(ctx, stop, reload)
}

// endpoint is what clients reach: the gateway, and the health of everline.
func (d *daemon) endpoint() http.Handler {
	return d.gateway.Handler(
		gateway.Route{Pattern: "GET /healthz", Serve: d.api.Healthz},
		gateway.Route{Pattern: "GET /readyz", Serve: d.api.Readyz},
	)
}

func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return strings.Trim(address, "[]")
	}
	return host
}

// mayListen refuses addresses that others can reach, unless that was asked for.
func mayListen(address string, allowRemote bool) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return usage("--listen 127.0.0.1:7433", "the address %q is not host:port", address)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return usage("--listen 127.0.0.1:7433", "the port %q is not a number from 0 to 65535", port)
	}
	if !allowRemote && !fileedit.IsLoopback(host) {
		return usage("--listen 127.0.0.1:"+port+", or --allow-remote if a proxy in front checks who calls",
			"other machines could reach %s, and call every tool, because everline checks no identity there", address)
	}
	return nil
}

func listen(ctx context.Context, address string) (net.Listener, error) {
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", address)
	if err == nil {
		return l, nil
	}
	if !errors.Is(err, errInUse) {
		return nil, &fault.Fault{Kind: fault.Invalid, Op: "listen on " + address, Err: err, Remedy: "--listen 127.0.0.1:7433"}
	}
	text := "the address is in use"
	_, port, _ := net.SplitHostPort(address)
	if n, err := strconv.Atoi(port); err == nil {
		if pid := portOwner(n); pid != 0 {
			text += fmt.Sprintf(" by process %d", pid)
		}
	}
	return nil, &fault.Fault{
		Kind: fault.Conflict, Op: "listen on " + address, Err: errors.New(text),
		Remedy: "end that program, or choose another port with --listen",
	}
}

// greet says where the endpoint is and what stands behind it.
func (a *app) greet(d *daemon, cfg *config.Config) {
	fmt.Fprintf(a.err, "everline %s serves %s\n", buildVersion(), d.opts.endpoint)
	fmt.Fprintf(a.err, "  configuration: %s (%s)\n", strings.Join(d.opts.files, ", "), plural(len(cfg.Servers), "server"))
	for _, s := range cfg.Servers {
		name := shownName(s.Name)
		switch {
		case s.Disabled:
			fmt.Fprintf(a.err, "  %s: disabled\n", name)
		case s.Err != nil:
			fmt.Fprintf(a.err, "  %s: misconfigured: %s\n", name, printable(s.Err.Text()))
		default:
			fmt.Fprintf(a.err, "  %s: %s\n", name, s.Transport)
		}
	}
}

// untilStopped runs the daemon until a signal, and then ends it: in order at
// the first one, without waiting for calls at the second. Who sends a third
// one is not made to wait for anything.
func (d *daemon) untilStopped(ctx context.Context, stop, reload <-chan os.Signal) error {
	for {
		select {
		case <-reload:
			d.reloadNow(ctx)
			continue
		case s := <-stop:
			d.opts.log.Info("stopping: calls in flight may finish", "signal", s.String(), "for", d.hub.Config().DrainTimeout.String())
		case <-ctx.Done():
		}
		break
	}
	notifySystemd("STOPPING=1")
	hurry, now := context.WithCancel(context.Background())
	defer now()
	done := make(chan error, 1)
	go func() { done <- d.close(hurry) }() // ends within its own deadlines; waited for below
	select {
	case err := <-done:
		return err
	case s := <-stop:
		d.opts.log.Warn("stopping at once", "signal", s.String())
		now()
	}
	select {
	case err := <-done:
		return err
	case <-stop:
		return exit(exitFailed)
	}
}
