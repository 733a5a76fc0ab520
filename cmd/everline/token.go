package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/everline/everline/internal/access"
	"github.com/everline/everline/internal/access/tokens"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/audit"
)

func newToken(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make and revoke the tokens by which clients come in",
		Long: "Make and revoke the tokens that clients show to the endpoint, where the configuration takes them:\n" +
			"\"auth\": {\"tokens\": true}. A token is shown once, when it is made; only its hash is kept, in the state folder.\n" +
			"A running everline takes up every change within a second.",
		Args: subcommandOnly,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTokenCreate(a), newTokenLs(a), newTokenRevoke(a), newTokenRotate(a))
	return cmd
}

// A clientToken is one token in the JSON of everline token.
type clientToken struct {
	ID       string     `json:"id"`
	Name     string     `json:"name"`
	Policy   *string    `json:"policy"` // that it was made with
	Created  time.Time  `json:"created"`
	Expires  *time.Time `json:"expires"`  // null: never
	LastUsed *time.Time `json:"lastUsed"` // to the minute; null: not that anybody knows
	Token    *string    `json:"token"`    // itself, when it is made; null ever after
}

func shapeToken(t tokens.Token, secret string) clientToken {
	return clientToken{t.ID, t.Name, noText(t.Policy), t.Created, noTime(t.Expires), noTime(t.LastUsed), noText(secret)}
}

func noText(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func noTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func newTokenCreate(a *app) *cobra.Command {
	var policy, expires string
	cmd := &cobra.Command{
		Use:   "create name",
		Short: "Make a token, and show it once",
		Long: "Make a token, and write it to stdout: it cannot be shown again. What its holder may do is granted to\n" +
			"\"token:NAME\" by the configuration, or by --policy.",
		Args: cobra.ExactArgs(1),
		RunE: runE(func(cmd *cobra.Command, args []string) error {
			until, err := expiry(expires, time.Now())
			if err != nil {
				return err
			}
			secret, t, err := a.changeToken(cmd.Context(), admin.DidTokenCreate, args[0], func() (string, tokens.Token, error) {
				return tokens.Create(a.stateDir, args[0], policy, until)
			})
			if err != nil {
				return err
			}
			return a.showToken(t, secret, "")
		}),
	}
	cmd.Flags().StringVar(&policy, "policy", "", "policy of the configuration that its holder has, besides what is granted to token:NAME")
	cmd.Flags().StringVar(&expires, "expires", "", "how long it is good, like 90d or 12h (default: until it is revoked)")
	return cmd
}

// changeToken changes a token that is named by its name or id, and has that recorded.
func (a *app) changeToken(ctx context.Context, action, which string, change func() (string, tokens.Token, error)) (secret string, t tokens.Token, err error) {
	what := admin.Doing{Target: &audit.Target{Token: which}}
	err = a.doing(ctx, action, &what, func() error {
		var err error
		if secret, t, err = change(); err == nil {
			what.Target = &audit.Target{Token: t.Name, Identity: access.Token(t.ID, t.Name, t.Policy, t.Expires).Key()}
			what.Policy = t.Policy
		}
		return err
	})
	return secret, t, err
}

// showToken writes a token where a script can take it, and what to know beside.
func (a *app) showToken(t tokens.Token, secret, note string) error {
	if a.forMachines() {
		return a.writeOne(shapeToken(t, secret))
	}
	if _, err := fmt.Fprintln(a.stdout, secret); err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "This is the token %s; it is not shown again. Clients send it as \"Authorization: Bearer TOKEN\".\n%s", printable(t.Name), note)
	return nil
}

// writeOne writes one value as JSON, in the form that was asked for.
func (a *app) writeOne(v any) error {
	if a.output == "jsonl" {
		return writeLine(a.stdout, v)
	}
	return writeJSON(a.stdout, v)
}

// expiry is the time at which something ends that is good for so long; "90d" is 90
// days. "" is never.
func expiry(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int
		if n, err = strconv.Atoi(days); err == nil && n < 100*366 {
			d = time.Duration(n) * 24 * time.Hour
		}
	}
	if err != nil || d <= 0 {
		return time.Time{}, usage("--expires 90d", "%q is no time from now", text)
	}
	return now.Add(d).Truncate(time.Second), nil
}

func newTokenLs(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List the tokens, without what lets anybody in",
		Args:  cobra.NoArgs,
		RunE: runE(func(*cobra.Command, []string) error {
			all, err := tokens.List(a.stateDir)
			if err != nil {
				return err
			}
			return a.listTokens(all)
		}),
	}
}

func (a *app) listTokens(all []tokens.Token) error {
	shown := make([]clientToken, len(all))
	for i, t := range all {
		shown[i] = shapeToken(t, "")
	}
	switch a.output {
	case "json":
		return writeJSON(a.stdout, shown)
	case "jsonl":
		for _, t := range shown {
			if err := writeLine(a.stdout, t); err != nil {
				return err
			}
		}
		return nil
	}
	if len(all) == 0 {
		fmt.Fprintln(a.stdout, "there are no tokens; everline token create NAME makes one")
		return nil
	}
	const row = "%-8s  %-20s  %-10s  %-18s  %s\n"
	fmt.Fprintf(a.stdout, row, "ID", "NAME", "POLICY", "LAST USED", "EXPIRES")
	now := time.Now()
	for _, t := range all {
		used, expires, policy := "-", "never", "-"
		if !t.LastUsed.IsZero() {
			used = clock(t.LastUsed, now)
		}
		if !t.Expires.IsZero() {
			expires = t.Expires.Local().Format("2006-01-02 15:04")
		}
		if t.Expired(now) {
			expires = "expired"
		}
		if t.Policy != "" {
			policy = printable(t.Policy)
		}
		fmt.Fprintf(a.stdout, row, t.ID, printable(t.Name), policy, used, expires)
	}
	return nil
}

func newTokenRevoke(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke name-or-id",
		Short: "End a token for good",
		Long:  "End a token for good. Within a second its holder is out of a running everline: sessions, streams and calls end.",
		Args:  cobra.ExactArgs(1),
		RunE: runE(func(cmd *cobra.Command, args []string) error {
			_, t, err := a.changeToken(cmd.Context(), admin.DidTokenRevoke, args[0], func() (string, tokens.Token, error) {
				t, err := tokens.Revoke(a.stateDir, args[0])
				return "", t, err
			})
			if err != nil {
				return err
			}
			if a.forMachines() {
				return a.writeOne(shapeToken(t, ""))
			}
			fmt.Fprintf(a.stdout, "the token %s is revoked\n", printable(t.Name))
			return nil
		}),
	}
}

func newTokenRotate(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "rotate name-or-id",
		Short: "Make a new token in the place of one",
		Long: "Make a new token in the place of one, and write it to stdout. The old one is good for another 24 hours; what\n" +
			"belongs to its holder stays the holder's.",
		Args: cobra.ExactArgs(1),
		RunE: runE(func(cmd *cobra.Command, args []string) error {
			secret, t, err := a.changeToken(cmd.Context(), admin.DidTokenRotate, args[0], func() (string, tokens.Token, error) {
				return tokens.Rotate(a.stateDir, args[0])
			})
			if err != nil {
				return err
			}
			return a.showToken(t, secret, "The one before it is good until "+t.BeforeUntil.Local().Format("2006-01-02 15:04")+".\n")
		}),
	}
}
