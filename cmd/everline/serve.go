package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/everline/everline/internal/daemon"
)

// serveFlags are the flags of serve and stdio.
type serveFlags struct {
	configs   []string
	format    string
	listen    string
	anybody   bool
	hosts     []string
	origins   []string
	watch     bool
	logFormat string
	logLevel  string
	group     string // of stdio
}

func (f *serveFlags) addCommon(a *app, cmd *cobra.Command) {
	flags := cmd.Flags()
	a.addCredentialsKey(flags)
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
			"MCP endpoint. It listens immediately, whatever the servers do.\n\n" +
			"It applies changes of the configuration files when they are saved, and on everline reload and SIGHUP.\n" +
			"SIGTERM or Ctrl-C stops it once the calls in flight have ended, a second one immediately.",
		Args: cobra.NoArgs,
		RunE: runE(func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), f) }),
	}
	f.addCommon(a, cmd)
	flags := cmd.Flags()
	flags.StringVarP(&f.listen, "listen", "l", "", "address to serve on (default: the configuration's, 127.0.0.1:7433)")
	flags.BoolVar(&f.watch, "watch", true, "apply changes of the configuration files when they are saved")
	flags.BoolVar(&f.anybody, "allow-unauthenticated", false, "allow an address that other machines can reach though nothing says who may come in, because a proxy in front checks that")
	flags.BoolVar(&f.anybody, "allow-remote", false, "the older name of allow-unauthenticated")
	_ = flags.MarkDeprecated("allow-remote", "it is called --allow-unauthenticated now") // it is there
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

func (f serveFlags) source(stateDir string) daemon.Source {
	return daemon.Source{StateDir: stateDir, Named: f.configs, Format: f.format}
}

func (a *app) serve(ctx context.Context, f serveFlags) error {
	log, err := f.logger(a.stderr)
	if err != nil {
		return err
	}
	inputs, source := a.newAsker(), f.source(a.stateDir)
	source.Ask = inputs.Ask
	found, err := source.Load()
	inputs.Done() // nobody who reloads is at this terminal
	if err != nil {
		return err
	}
	e := daemon.Endpoint{
		Address: f.listen, Hosts: f.hosts, Origins: f.origins, Watch: f.watch,
		Serving: func(url string) { a.greet(url, found) }, Unauthenticated: f.anybody,
	}
	if f.listen == "" {
		e.Address, e.Configured = found.Config.Listen, found.Config.Listen
	}
	if err := mayListen(e.Address); err != nil {
		return err
	}
	err = daemon.Serve(ctx, found, daemon.Options{Version: buildVersion(), Log: log, CredentialsKey: a.credentialsKey}, e)
	if errors.Is(err, daemon.ErrForced) {
		return exit(exitFailed)
	}
	return err
}

// mayListen refuses what is no address.
func mayListen(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return usage("--listen 127.0.0.1:7433", "the address %q is not host:port", address)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return usage("--listen 127.0.0.1:7433", "the port %q is not a number from 0 to 65535", port)
	}
	return nil
}

// greet says where the endpoint is and what stands behind it.
func (a *app) greet(url string, found daemon.Loaded) {
	fmt.Fprintf(a.stderr, "everline %s serves %s\n", buildVersion(), url)
	fmt.Fprintf(a.stderr, "  configuration: %s (%s)\n", strings.Join(found.Files, ", "), plural(len(found.Config.Servers), "server"))
	for _, s := range found.Config.Servers {
		name := shownName(s.Name)
		switch {
		case s.Disabled:
			fmt.Fprintf(a.stderr, "  %s: disabled\n", name)
		case s.Err != nil:
			fmt.Fprintf(a.stderr, "  %s: misconfigured: %s\n", name, printable(s.Err.Reason()))
		default:
			fmt.Fprintf(a.stderr, "  %s: %s\n", name, s.Transport)
		}
	}
}
