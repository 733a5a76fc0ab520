package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/access"
	"github.com/everline/everline/internal/access/tokens"
	"github.com/everline/everline/internal/conf/clients"
	"github.com/everline/everline/internal/conf/tree"
	"github.com/everline/everline/internal/fileedit"
	"github.com/everline/everline/internal/policy"
	"github.com/everline/everline/internal/trust"
)

// How a linked client shows who it is.
const (
	authNone  = "none"  // not at all, or by the user that it runs as
	authOAuth = "oauth" // it logs in by itself
	authToken = "token" // with a token in its file
)

// linkOptions say where a linked client goes, and what it shows there.
type linkOptions struct{ endpoint, group, auth, policy, tokenFile string }

func (o *linkOptions) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.endpoint, "endpoint", "", "the URL to write (default: that of the everline that runs, else of the configuration)")
	cmd.Flags().StringVar(&o.group, "group", "", "the endpoint of this group, in place of that of all servers")
	cmd.Flags().StringVar(&o.auth, "auth", "", "how the client shows who it is: none, oauth or token (default: what the endpoint asks for)")
	cmd.Flags().StringVar(&o.policy, "policy", "", "policy that the client's token has, besides what is granted to token:CLIENT")
	cmd.Flags().StringVar(&o.tokenFile, "token-file", "", "file with the token to write, in place of one that is made; - for stdin")
	_ = cmd.RegisterFlagCompletionFunc("auth", cobra.FixedCompletions([]cobra.Completion{authNone, authOAuth, authToken}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
}

// A linkTarget is what link writes.
type linkTarget struct {
	format string
	entry  tree.Entry
	done   string
	auth   string
	cfg    *config.Config // nil: that of another everline
}

func (a *app) linkTarget(cmd *cobra.Command, format string, o linkOptions) (linkTarget, error) {
	to := linkTarget{format: format, auth: authNone}
	if o.auth != "" && !slices.Contains([]string{authNone, authOAuth, authToken}, o.auth) {
		return to, usage("--auth none, oauth or token", "%q is no way to show who one is", o.auth)
	}
	endpoint, cfg, err := a.endpointFor(cmd, o.endpoint)
	if err != nil {
		return to, err
	}
	at := fileedit.GroupURL(endpoint, o.group)
	to.cfg, to.done = cfg, clients.Title(format)+" reaches everline at "+at+"; restart it to see it"
	if format == clients.ClaudeDesktop {
		program, bridge, err := a.bridge(cmd)
		if err != nil {
			return to, err
		}
		if o.group != "" {
			bridge = append(bridge, "--group", o.group)
		}
		to.entry = clients.LinkEntry(format, at, program, bridge...)
		return to, nil
	}
	if a.runningFiles(cmd.Context()) == nil {
		to.done += ", while this runs: everline serve"
	}
	to.entry = clients.LinkEntry(format, at, "")
	switch {
	case o.auth != "":
		to.auth = o.auth
	case o.tokenFile != "" || o.policy != "":
		to.auth = authToken
	case cfg != nil:
		to.auth, err = askedFor(cfg, endpoint)
	}
	if to.auth == authOAuth {
		to.done += ", and log in when it asks for it"
	}
	return to, err
}

// askedFor is what a client on this machine has to show at a URL.
func askedFor(cfg *config.Config, at string) (string, error) {
	u, err := url.Parse(at)
	switch a := cfg.Access; {
	case !a.Demanded:
		return authNone, nil
	case cfg.Clients == config.ClientsSameUser && runtime.GOOS == "linux" && err == nil && fileedit.IsLoopback(u.Hostname()):
		return authNone, nil // the system tells whose the connection is
	case len(a.Issuers) > 0:
		return authOAuth, nil
	case a.Tokens:
		return authToken, nil
	default:
		return "", &fault.Fault{
			Kind: fault.Invalid, Op: "link", Outcome: fault.NotSent, Err: errors.New("the endpoint asks for certificates, which a client's file has no place for"),
			Remedy: `take tokens, too: "auth": {"tokens": true}`,
		}
	}
}

// giveToken puts a token into what is written: the one that the client has already, if
// there is one. undo revokes one that was made for it.
func (a *app) giveToken(l *fileedit.Link, before string, to *linkTarget, f linkFlags, o linkOptions) (undo func(), err error) {
	undo = func() {}
	if f.project {
		return undo, usage("leave out --project, or: --auth none", "the file of a project is for others, too, and a token is not")
	}
	l.Secret = true
	secret := tokens.Prefix + "…"
	switch known := a.knownToken(before, o.policy); {
	case o.tokenFile != "":
		secret, err = a.readToken(o.tokenFile)
	case known && l.Shown() != "":
		secret, l.Token = l.Shown(), before
	case f.dryRun:
	default:
		var t tokens.Token
		if secret, t, err = a.newToken(to.format, o.policy); err != nil {
			return undo, err
		}
		l.Token, undo = t.ID, func() { _, _ = tokens.Revoke(a.stateDir, t.ID) } // the edit's error says more
		to.done += ", with the token " + t.Name + " of its own"
		a.warnOfNothing(to.cfg, t)
	}
	to.entry = clients.WithToken(to.format, to.entry, secret)
	return undo, err
}

// knownToken tells whether a token can be used on.
func (a *app) knownToken(id, policy string) bool {
	all, err := tokens.List(a.stateDir)
	return err == nil && slices.ContainsFunc(all, func(t tokens.Token) bool {
		return t.ID == id && !t.Expired(time.Now()) && (policy == "" || policy == t.Policy)
	})
}

// newToken makes a token that is called like its client, or with a number behind it.
func (a *app) newToken(format, policy string) (secret string, t tokens.Token, err error) {
	name := format
	for n := 2; n < 100; n++ {
		if secret, t, err = tokens.Create(a.stateDir, name, policy, time.Time{}); err == nil || fault.KindOf(err) != fault.Conflict {
			return secret, t, err
		}
		name = format + "-" + strconv.Itoa(n)
	}
	return secret, t, err
}

// warnOfNothing says that a token is of no use yet.
func (a *app) warnOfNothing(cfg *config.Config, t tokens.Token) {
	if cfg != nil && policy.New(cfg).For(access.Token(t.ID, t.Name, t.Policy, t.Expires)) == nil {
		fmt.Fprintf(a.stderr, "nothing is granted to it yet: write \"token:%s\" under \"grants\", or link again with --policy\n", t.Name)
	}
}

// readToken reads the token that somebody was given.
func (a *app) readToken(file string) (string, error) {
	const most = 16 << 10
	in := a.stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", fileedit.Fault("read", file, err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, most))
	if err != nil {
		return "", fileedit.Fault("read", file, err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || len(text) == most || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", usage("write the token, and nothing else, into the file", "there is no token in %s", file)
	}
	return token, nil
}

// takeTokenBack revokes the token that was made for a client; "" for none.
func (a *app) takeTokenBack(id string) error {
	if id == "" {
		return nil
	}
	t, err := tokens.Revoke(a.stateDir, id)
	switch {
	case err != nil && fault.KindOf(err) == fault.NotFound: // somebody else has
		return nil
	case err == nil && !a.forMachines():
		fmt.Fprintf(a.stdout, "  its token %s is revoked\n", printable(t.Name))
	}
	return err
}

// endpointFor is the URL for clients, and the configuration that it follows from: of
// the everline that runs, else of what serve would read, else the defaults. It is the
// public one where the address that everline listens on would not do: because of its
// certificate, or because something is to be shown, which is for the public one.
func (a *app) endpointFor(cmd *cobra.Command, named string) (string, *config.Config, error) {
	if named != "" {
		return named, nil, nil
	}
	st, err := a.client().Status(cmd.Context())
	running := err == nil && st.Endpoint != ""
	cfg, check, err := a.linkedConfig(cmd)
	if err != nil {
		return "", nil, err
	}
	at := "http://" + cfg.Listen + "/mcp"
	if cfg.TLS.CertFile != "" {
		at = "https://" + cfg.Listen + "/mcp"
	}
	if running {
		at = st.Endpoint
	}
	if asked, _ := askedFor(cfg, at); cfg.PublicURL != "" && (cfg.TLS.CertFile != "" || asked != authNone) {
		at = cfg.PublicURL + "/mcp"
	}
	u, err := url.Parse(at)
	if err != nil || u.Hostname() == "" {
		return "", nil, errors.New("the configuration's listen address has no host; name the URL with --endpoint")
	}
	if !running && !fileedit.IsLoopback(u.Hostname()) { // clients are sent to other machines by the user alone
		err = check(cfg)
	}
	return at, cfg, err
}

// linkedConfig is the configuration of the everline that runs, else of what serve would
// read; check tells whether that is trusted.
func (a *app) linkedConfig(cmd *cobra.Command) (cfg *config.Config, check func(*config.Config) error, err error) {
	files := a.runningFiles(cmd.Context())
	if files == nil {
		if files, err = trust.Files(nil); err != nil {
			return config.New(), func(*config.Config) error { return nil }, nil //nolint:nilerr // there is none yet
		}
	}
	texts := trust.Texts{}
	cfg, err = config.Options{ReadFile: texts.Read}.Load(files...)
	return cfg, func(cfg *config.Config) error { return trust.Check(a.stateDir, nil, files, texts.Read, cfg) }, err
}
