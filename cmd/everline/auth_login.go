package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/audit"
	"github.com/everline/everline/internal/auth"
	"github.com/everline/everline/internal/daemon"
)

// loginFlags are the flags of auth login.
type loginFlags struct {
	configs   []string
	scopes    []string
	noBrowser bool
	device    bool
	paste     bool
	force     bool
}

func newAuthLogin(a *app) *cobra.Command {
	var f loginFlags
	cmd := &cobra.Command{
		Use:               "login server",
		ValidArgsFunction: one(a.completeConfigured),
		Short:             "Log in to a server",
		Long: "Log in to a server in the browser. The address is always shown, and opened unless --no-browser, --paste or\n" +
			"--device says otherwise. An everline that runs uses the login within a second.\n\n" +
			"On a machine without a browser: --device, where the server's issuer knows device codes; else --no-browser, which\n" +
			"says how to forward a port over ssh; else --paste, which takes the address that the browser ends up at.",
		Args: cobra.ExactArgs(1),
		RunE: runE(func(cmd *cobra.Command, args []string) error { return a.login(cmd.Context(), args[0], f) }),
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.configs, "config", "c", nil, configHelp)
	flags.StringArrayVar(&f.scopes, "scope", nil, "a scope to ask for beside those that the server names; may be given more than once")
	flags.BoolVar(&f.noBrowser, "no-browser", false, "show the address, and open nothing")
	flags.BoolVar(&f.device, "device", false, "log in on another device, by a code")
	flags.BoolVar(&f.paste, "paste", false, "read the address that the browser ends up at from stdin")
	flags.BoolVar(&f.force, "force", false, "log in although there is a login that works")
	cmd.MarkFlagsMutuallyExclusive("device", "paste")
	return cmd
}

func noCredential(server string) error {
	return &fault.Fault{
		Kind: fault.NotFound, Op: "auth", Server: server, Outcome: fault.NotSent,
		Err: errors.New("no server with that name is reached by a URL"), Remedy: "everline auth status",
	}
}

func (a *app) login(ctx context.Context, server string, f loginFlags) error {
	ctx, end := signal.NotifyContext(ctx, daemon.StopSignals...)
	defer end()
	m, _, err := a.credentials(ctx, f.configs)
	if err != nil {
		return err
	}
	defer m.Close()
	if m.Status()[server] == nil {
		return noCredential(server)
	}
	l, err := a.beginLogin(ctx, m, server, f)
	if err != nil {
		return err
	}
	done := "logged in to"
	if l.URL() == "" && !l.Elsewhere() {
		done = "there is a login that works, and --force makes another:"
	}
	if err := a.showLogin(server, l, f); err != nil {
		return err
	}
	if f.paste {
		err = a.pasted(ctx, l)
	} else {
		err = a.browsed(ctx, l, f)
	}
	if _, remote := l.(*remoteLogin); !remote && l.URL() != "" { // else another process has it recorded, or nothing was done
		what := admin.Doing{Target: &audit.Target{Server: server}}
		a.did(ctx, admin.DidLogin, what.Failed(err))
	}
	if err != nil {
		return err
	}
	m.Reload(ctx)
	return a.printLogin(ctx, m, server, done, f.configs)
}

// An aLogin is one on its way, here or in the everline that runs.
type aLogin interface {
	URL() string
	UserCode() string
	RedirectURI() string
	Elsewhere() bool
	Deliver(redirected string) error
	DeliverCode(code string) error
	Done() <-chan struct{}
	Wait(ctx context.Context) error
	Cancel()
}

// beginLogin has the everline that runs do it, if it has the server: its endpoint
// is where the browser is to end up. Without one it is done here.
func (a *app) beginLogin(ctx context.Context, m *auth.Manager, server string, f loginFlags) (aLogin, error) {
	c := a.glance()
	st, err := c.Status(ctx)
	if err != nil || len(f.configs) > 0 || len(only(st.Servers, server)) == 0 {
		if err := a.mayDo(ctx, admin.DidLogin); err != nil {
			return nil, err
		}
		return m.Login(ctx, server, auth.LoginOptions{Scopes: f.scopes, Device: f.device, Force: f.force})
	}
	begun, err := c.Login(ctx, server, admin.LoginRequest{Scopes: f.scopes, Device: f.device, Force: f.force})
	if err != nil {
		return nil, err
	}
	l := &remoteLogin{client: c, ctx: ctx, begun: begun, done: make(chan struct{})}
	go func() { // ends with the login, or with ctx
		defer close(l.done)
		l.err = c.LoginEnd(ctx, begun.ID)
	}()
	return l, nil
}

// A remoteLogin is one of the everline that runs, which gives it up by itself.
type remoteLogin struct {
	client *admin.Client
	ctx    context.Context
	begun  admin.Login
	done   chan struct{}
	err    error // valid once done is closed
}

func (l *remoteLogin) URL() string           { return l.begun.URL }
func (l *remoteLogin) UserCode() string      { return l.begun.UserCode }
func (l *remoteLogin) RedirectURI() string   { return l.begun.RedirectURI }
func (l *remoteLogin) Elsewhere() bool       { return l.begun.Elsewhere }
func (l *remoteLogin) Done() <-chan struct{} { return l.done }
func (l *remoteLogin) Cancel()               {}

func (l *remoteLogin) Deliver(redirected string) error {
	return l.client.Deliver(l.ctx, l.begun.ID, admin.Delivery{URL: redirected})
}

func (l *remoteLogin) DeliverCode(code string) error {
	return l.client.Deliver(l.ctx, l.begun.ID, admin.Delivery{Code: code})
}

func (l *remoteLogin) Wait(ctx context.Context) error {
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return fault.From("login", ctx.Err())
	}
}

// A loginStep is what a person has to do, in the JSON of everline auth login.
type loginStep struct {
	Server      string  `json:"server"`
	URL         string  `json:"url"`
	UserCode    *string `json:"userCode"`
	RedirectURI *string `json:"redirectUri"`
}

// showLogin says where to log in. The host stands alone, so that it is seen.
func (a *app) showLogin(server string, l aLogin, f loginFlags) error {
	page := l.URL()
	switch {
	case l.Elsewhere():
		fmt.Fprintf(a.stderr, "another process has this login open, and its result counts here, too\n")
		return nil
	case page == "":
		return nil
	case a.forMachines():
		step := loginStep{Server: server, URL: page}
		if code := l.UserCode(); code != "" {
			step.UserCode = &code
		}
		if redirect := l.RedirectURI(); redirect != "" {
			step.RedirectURI = &redirect
		}
		return writeLine(a.stdout, step)
	}
	var b strings.Builder
	host := page
	if u, err := url.Parse(page); err == nil {
		host = u.Scheme + "://" + u.Host
	}
	fmt.Fprintf(&b, "log in to %s at\n  %s\nby opening\n  %s\n", shownName(server), printable(host), printable(page))
	if code := l.UserCode(); code != "" {
		fmt.Fprintf(&b, "with the code\n  %s\n", printable(code))
	}
	if u, err := url.Parse(l.RedirectURI()); err == nil && f.noBrowser && !f.paste && u.Port() != "" {
		fmt.Fprintf(&b, "if the browser is on another machine, forward the port first, there:\n  ssh -L %s:127.0.0.1:%s %s\n", u.Port(), u.Port(), hostName())
	}
	if f.paste {
		b.WriteString("and paste the address that the browser ends up at, whatever it shows:\n")
	}
	_, err := fmt.Fprint(a.stdout, b.String())
	return err
}

func hostName() string {
	if name, err := os.Hostname(); err == nil {
		return name
	}
	return "HOST"
}

// browsed opens the page, if a browser is wanted, and waits for the login, which
// goes on whatever becomes of the browser.
func (a *app) browsed(ctx context.Context, l aLogin, f loginFlags) error {
	failed := make(chan struct{})
	if page := l.URL(); page != "" && !f.noBrowser && !f.device {
		go func() { // ends with the program that opens pages, which may be the browser itself
			if err := auth.OpenBrowser(context.WithoutCancel(ctx), page); err != nil {
				close(failed)
			}
		}()
	}
	select {
	case <-failed:
		fmt.Fprintln(a.stderr, "no browser could be started: open the address yourself")
	case <-l.Done():
	case <-ctx.Done():
	}
	return l.Wait(ctx)
}

// maxPasted bounds a pasted address in bytes.
const maxPasted = 64 << 10

// pastedFor is how long the end of stdin may be ahead of the end of the login.
const pastedFor = time.Second

// pasted ends a login with what a person pastes, or with a redirect that has come
// by itself meanwhile.
func (a *app) pasted(ctx context.Context, l aLogin) error {
	lines, over := make(chan string), make(chan struct{})
	go func() { // ends with stdin, or with the process
		defer close(over)
		in := bufio.NewScanner(a.stdin)
		in.Buffer(nil, maxPasted)
		for in.Scan() {
			if text := strings.TrimSpace(in.Text()); text != "" {
				lines <- text
			}
		}
	}()
	for {
		select {
		case text := <-lines:
			err := l.Deliver(text)
			if errors.Is(err, auth.ErrBareCode) || admin.IsBareCode(err) {
				err = a.pastedCode(ctx, l, text, lines)
			}
			if err != nil {
				return err
			}
		case <-over:
			select {
			case <-l.Done():
				return l.Wait(ctx)
			case <-time.After(pastedFor):
			}
			l.Cancel()
			return usage("paste the address, or pipe it to stdin", "no address came that ends the login")
		case <-l.Done():
			return l.Wait(ctx)
		case <-ctx.Done():
			return l.Wait(ctx)
		}
	}
}

// pastedCode takes a bare code where the person says that it is of this login.
func (a *app) pastedCode(ctx context.Context, l aLogin, code string, lines <-chan string) error {
	fmt.Fprintln(a.live(), "That is a code alone: nothing proves that it belongs to this login. Type yes if you are certain that it does.")
	select {
	case reply := <-lines:
		if !strings.EqualFold(reply, "yes") {
			return auth.ErrBareCode
		}
		return l.DeliverCode(code)
	case <-ctx.Done():
		return l.Wait(ctx)
	}
}
