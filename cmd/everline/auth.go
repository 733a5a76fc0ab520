package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/audit"
	"github.com/everline/everline/internal/auth"
	"github.com/everline/everline/internal/daemon"
	"github.com/everline/everline/internal/fleet"
)

func newAuth(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "auth",
		Short: "Log in to servers, and see how their credentials are",
		Long: "Log in to servers that want OAuth, and see how their credentials are. A login is kept in the state folder,\n" +
			"encrypted, and renewed by itself; everline never opens a browser unasked.",
		Args: subcommandOnly,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	a.addCredentialsKey(cmd.PersistentFlags())
	cmd.AddCommand(newAuthLogin(a), newAuthLogout(a), newAuthStatus(a), newAuthRekey(a))
	return cmd
}

func (a *app) addCredentialsKey(flags *pflag.FlagSet) {
	flags.StringVar(&a.credentialsKey, "credentials-key", "",
		"file with the key that logins are encrypted with (default: everline-key of systemd's credentials, else one in the keyring or beside them)")
}

// manager owns the logins of the state folder, beside others that do. The caller
// must Close it.
func (a *app) manager() *auth.Manager {
	warn := func(text string) { fmt.Fprintf(a.stderr, "warning: %s\n", printable(text)) }
	return auth.New(auth.Options{StateDir: a.stateDir, KeyFile: a.credentialsKey, Warn: warn})
}

// credentials are those of every server with a URL, of the files that are named,
// else of those of the everline that runs, else of the one that serve would read.
// The caller must Close them.
func (a *app) credentials(ctx context.Context, named []string) (m *auth.Manager, servers []string, err error) {
	if len(named) == 0 {
		named = a.runningFiles(ctx)
	}
	found, err := daemon.Source{StateDir: a.stateDir, Named: named, Ask: a.newAsker().Ask}.Load()
	if err != nil {
		return nil, nil, err
	}
	m = a.manager()
	for _, s := range found.Config.Servers {
		if s.URL != "" && s.Err == nil {
			m.Source(fleet.Credential(&s))
			servers = append(servers, s.Name)
		}
	}
	m.Reload(ctx)
	return m, servers, nil
}

const configHelp = "configuration file; may be given more than once (default: those of the everline that runs, else the one that serve would read)"

func newAuthStatus(a *app) *cobra.Command {
	var configs []string
	cmd := &cobra.Command{
		Use:               "status [server]",
		ValidArgsFunction: one(a.completeConfigured),
		Short:             "How the credential of each server is",
		Long: "How the credential of each server with a URL is: who issued it, for whom, until when, and where the key is\n" +
			"that it is encrypted with. Exits with 4 if a login is needed.",
		Args: cobra.MaximumNArgs(1),
		RunE: runE(func(cmd *cobra.Command, args []string) error {
			return a.authStatus(cmd.Context(), configs, strings.Join(args, ""))
		}),
	}
	cmd.Flags().StringArrayVarP(&configs, "config", "c", nil, configHelp)
	return cmd
}

// An authServer is one server in the JSON of everline auth status.
type authServer struct {
	Server string     `json:"server"`
	Auth   admin.Auth `json:"auth"`
}

// An authReport is the JSON of everline auth status.
type authReport struct {
	Servers []authServer `json:"servers"`
	Key     *string      `json:"key"`
}

func (a *app) authStatus(ctx context.Context, configs []string, name string) error {
	m, servers, err := a.credentials(ctx, configs)
	if err != nil {
		return err
	}
	defer m.Close()
	report, code := authReport{Servers: []authServer{}}, exitOK
	if place := m.KeyPlace(ctx); place != "" {
		report.Key = &place
	}
	if name != "" {
		if m.Status()[name] == nil {
			return noCredential(name)
		}
		servers = []string{name}
	}
	running := a.runningAuth(ctx, configs)
	for _, server := range servers {
		s := shownAuth(m, running, server)
		report.Servers = append(report.Servers, s)
		if s.Auth.State == auth.NeedsLogin.String() || s.Auth.State == auth.Misconfigured.String() {
			code = exitAuth
		}
	}
	if err := a.printAuth(report); err != nil {
		return err
	}
	if code != exitOK {
		return exit(code)
	}
	return nil
}

func (a *app) printAuth(report authReport) error {
	switch a.output {
	case "json":
		return writeJSON(a.stdout, report)
	case "jsonl":
		for _, s := range report.Servers {
			if err := writeLine(a.stdout, s); err != nil {
				return err
			}
		}
		return nil
	}
	var b strings.Builder
	for _, s := range report.Servers {
		authLines(&b, s, time.Now())
	}
	if len(report.Servers) == 0 {
		b.WriteString("no server with a URL is configured\n")
	}
	if report.Key != nil {
		fmt.Fprintf(&b, "key: %s\n", printable(*report.Key))
	}
	_, err := fmt.Fprint(a.stdout, b.String())
	return err
}

// runningAuth is how the credentials are of the servers of the everline that runs:
// it knows more than what is stored. There are none where files are named.
func (a *app) runningAuth(ctx context.Context, named []string) map[string]admin.Auth {
	if len(named) > 0 {
		return nil
	}
	st, err := a.glance().Status(ctx)
	if err != nil {
		return nil
	}
	all := map[string]admin.Auth{}
	for _, s := range st.Servers {
		if s.Auth != nil {
			all[s.Name] = *s.Auth
		}
	}
	return all
}

func shownAuth(m *auth.Manager, running map[string]admin.Auth, server string) authServer {
	if s, ok := running[server]; ok {
		return authServer{server, s}
	}
	return authServer{server, admin.ShapeAuth(m.Status()[server], m.Hide)}
}

// authWords are the states of a credential, for people.
var authWords = map[string]string{
	"none": "no login so far", "ok": "logged in", "refreshing": "being renewed", "retrying": "cannot be had now",
	"needs_login": "needs a login", "misconfigured": "misconfigured",
}

func authLines(b *strings.Builder, s authServer, now time.Time) {
	state := authWords[s.Auth.State]
	switch s.Auth.Kind {
	case "static":
		state = "headers of the configuration"
	case "none":
		state = "no credential"
	}
	fmt.Fprintf(b, "%s: %s", shownName(s.Server), state)
	if s.Auth.Issuer != nil {
		fmt.Fprintf(b, " at %s", printable(*s.Auth.Issuer))
	}
	if s.Auth.Subject != nil {
		fmt.Fprintf(b, " as %s", printable(*s.Auth.Subject))
	}
	b.WriteString("\n")
	if len(s.Auth.Scopes) > 0 {
		fmt.Fprintf(b, "    scopes: %s\n", printable(strings.Join(s.Auth.Scopes, " ")))
	}
	if t := s.Auth.ExpiresAt; t != nil {
		fmt.Fprintf(b, "    token until %s\n", clock(*t, now))
	}
	if t := s.Auth.RefreshedAt; t != nil {
		fmt.Fprintf(b, "    issued %s\n", clock(*t, now))
	}
	if s.Auth.Cause != nil {
		fmt.Fprintf(b, "    %s\n", printable(*s.Auth.Cause))
	}
	if s.Auth.Remedy != nil {
		fmt.Fprintf(b, "    %s\n", advice(*s.Auth.Remedy))
	}
}

func newAuthLogout(a *app) *cobra.Command {
	var configs []string
	var all bool
	cmd := &cobra.Command{
		Use:               "logout server",
		ValidArgsFunction: one(a.completeConfigured),
		Short:             "Forget the login to a server",
		Long:              "Forget the login to a server, and tell its issuer, where that can be done within 5 seconds.",
		Args:              cobra.ExactArgs(1),
		RunE: runE(func(cmd *cobra.Command, args []string) error {
			m, _, err := a.credentials(cmd.Context(), configs)
			if err != nil {
				return err
			}
			defer m.Close()
			if err := a.logout(cmd.Context(), m, args[0], all, configs); err != nil {
				return err
			}
			return a.printLogin(cmd.Context(), m, args[0], "logged out of", configs)
		}),
	}
	cmd.Flags().StringArrayVarP(&configs, "config", "c", nil, configHelp)
	cmd.Flags().BoolVar(&all, "all", false, "forget the registration with the issuer, and which scopes were asked for, as well")
	return cmd
}

// logout has the everline that runs do it, if it has the server: it may be the one
// that has the key.
func (a *app) logout(ctx context.Context, m *auth.Manager, server string, all bool, configs []string) error {
	if _, ok := a.runningAuth(ctx, configs)[server]; !ok {
		return a.doing(ctx, admin.DidLogout, &admin.Doing{Target: &audit.Target{Server: server}}, func() error { return m.Logout(ctx, server, all) })
	}
	_, err := a.glance().Logout(ctx, server, admin.LogoutRequest{All: all})
	return err
}

func newAuthRekey(a *app) *cobra.Command {
	var discard bool
	cmd := &cobra.Command{
		Use:   "rekey",
		Short: "Encrypt the logins with a new key",
		Long: "Encrypt what is kept of logins with a new key: the first one of --credentials-key, or one that is made. An\n" +
			"everline that runs with --credentials-key must find the new key in its file, too.",
		Args: cobra.NoArgs,
		RunE: runE(func(cmd *cobra.Command, _ []string) error {
			m := a.manager()
			defer m.Close()
			err := a.doing(cmd.Context(), admin.DidRekey, &admin.Doing{}, func() error { return m.Rekey(cmd.Context(), discard) })
			if err != nil {
				return err
			}
			place := m.KeyPlace(cmd.Context())
			if a.forMachines() {
				return writeLine(a.stdout, authReport{Servers: []authServer{}, Key: &place})
			}
			_, err = fmt.Fprintf(a.stdout, "the new key: %s\n", printable(place))
			return err
		}),
	}
	cmd.Flags().BoolVar(&discard, "discard", false, "give up what is locked by a key that is not to be had: it is moved aside, and must be logged in to again")
	return cmd
}

// printLogin prints what has become of one server's credential.
func (a *app) printLogin(ctx context.Context, m *auth.Manager, server, done string, configs []string) error {
	if a.forMachines() {
		return writeLine(a.stdout, shownAuth(m, a.runningAuth(ctx, configs), server))
	}
	_, err := fmt.Fprintf(a.stdout, "%s %s\n", done, shownName(server))
	return err
}
