package main

import (
	"context"
	"errors"
	"net/http"
	"os/signal"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/everline/everline/internal/access/tokens"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/bridge"
	"github.com/everline/everline/internal/daemon"
	"github.com/everline/everline/internal/fileedit"
)

func newStdio(a *app) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "stdio",
		Short: "Speak MCP on stdin and stdout",
		Long: "Speak MCP on stdin and stdout, for clients that start their servers. If an everline runs on the\n" +
			"state folder, this is a bridge to it, and --config is not read; else it is a whole gateway.",
		Args: cobra.NoArgs,
		RunE: runE(func(cmd *cobra.Command, _ []string) error { return a.stdio(cmd.Context(), f) }),
	}
	f.addCommon(a, cmd)
	cmd.Flags().StringVar(&f.group, "group", "", "serve the servers of this group, in place of all")
	return cmd
}

func (a *app) stdio(parent context.Context, f serveFlags) error {
	log, err := f.logger(a.stderr)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(parent, daemon.StopSignals...)
	defer stop()
	st, err := a.glance().Status(ctx)
	switch {
	case err == nil && st.Endpoint != "":
		own := &ownWay{base: http.DefaultTransport.(*http.Transport).Clone(), stateDir: a.stateDir}
		defer own.base.CloseIdleConnections()
		return bridge.Run(ctx, a.stdin, a.raw(), fileedit.GroupURL(st.Endpoint, f.group), own)
	case err != nil && !errors.Is(err, admin.ErrNotRunning):
		return err
	}
	stop() // the gateway has signals of its own
	found, err := f.source(a.stateDir).Load()
	if err != nil {
		return err
	}
	return daemon.ServeStdio(parent, found, daemon.Options{Version: buildVersion(), Log: log, CredentialsKey: a.credentialsKey}, daemon.Stdio{In: a.stdin, Out: a.raw(), Group: f.group})
}

// An ownWay is the way to the user's own everline: where that asks who comes, it
// shows the token that is there for the user's own programs, and again when everline
// was started anew and has another one.
type ownWay struct {
	base     *http.Transport
	stateDir string
	token    atomic.Pointer[string]
}

func (o *ownWay) RoundTrip(r *http.Request) (*http.Response, error) {
	shown := o.token.Load()
	resp, err := o.base.RoundTrip(bearing(r, shown))
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	token := tokens.Local(o.stateDir)
	if token == "" || shown != nil && *shown == token || r.Body != nil && r.GetBody == nil {
		return resp, nil
	}
	o.token.Store(&token)
	again := bearing(r, &token)
	if r.GetBody != nil {
		if again.Body, err = r.GetBody(); err != nil {
			return resp, nil //nolint:nilerr // the refusal says more
		}
	}
	_ = resp.Body.Close() // nothing in it is wanted
	return o.base.RoundTrip(again)
}

// bearing is a request that shows a token; nil shows none.
func bearing(r *http.Request, token *string) *http.Request {
	if token == nil {
		return r
	}
	again := r.Clone(r.Context())
	again.Header.Set("Authorization", "Bearer "+*token)
	return again
}
