package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/everline/everline/internal/conf/tree"
	"github.com/everline/everline/internal/fileedit"
)

type addFlags struct {
	file      string
	env       []string
	headers   []string
	transport string
	cwd       string
	lazy      bool
	required  bool
	disabled  bool
	force     bool
	dryRun    bool
}

func newAdd(a *app) *cobra.Command {
	var f addFlags
	cmd := &cobra.Command{
		Use:   "add name (URL | -- command [args...])",
		Short: "Put a server into the configuration file",
		Long: "Put a server into the configuration file; comments and the rest of it stay as they are. A running everline\n" +
			"applies it when the file is saved. Write secrets as references: --env 'TOKEN=${TOKEN}'.",
		Example: "  everline add files -- npx -y @modelcontextprotocol/server-filesystem /tmp\n" +
			"  everline add docs https://example.com/mcp --header 'Authorization: Bearer ${TOKEN}'",
		Args: cobra.MinimumNArgs(2),
		RunE: runE(func(cmd *cobra.Command, args []string) error { return a.add(cmd.Context(), args[0], args[1:], f) }),
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "config", "c", "", "the file to change (default: the one that the running everline reads, else the one that serve would read, else ./everline.json)")
	flags.StringArrayVarP(&f.env, "env", "e", nil, "NAME=value for its environment")
	flags.StringArrayVarP(&f.headers, "header", "H", nil, "'Name: value' for its requests")
	flags.StringVar(&f.transport, "type", "", "http or sse, where it must not be found out")
	flags.StringVar(&f.cwd, "cwd", "", "the folder to start it in")
	flags.BoolVar(&f.lazy, "lazy", false, "start it with its first call")
	flags.BoolVar(&f.required, "required", false, "not ready without it")
	flags.BoolVar(&f.disabled, "disabled", false, "do not start it yet")
	flags.BoolVar(&f.force, "force", false, "replace a server of that name")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show the change, and make none")
	return cmd
}

func (a *app) add(ctx context.Context, name string, words []string, f addFlags) error {
	entry, err := f.entry(words)
	if err != nil {
		return err
	}
	path, err := a.oneFile(ctx, f.file, nil)
	if err != nil {
		return err
	}
	return a.editTrusted(ctx, path, f.dryRun, "server "+shownName(name)+" added", func(old []byte) ([]byte, error) {
		text, warning, err := fileedit.AddServer(path, old, name, entry, f.force)
		if warning != "" {
			fmt.Fprintf(a.stderr, "warning: %s\n", printable(warning))
		}
		return text, err
	})
}

func (f addFlags) entry(words []string) (tree.Entry, error) {
	var e tree.Entry
	if f.transport != "" {
		e = append(e, tree.Member{Key: "type", Value: f.transport})
	}
	if len(words) == 1 && (strings.HasPrefix(words[0], "http://") || strings.HasPrefix(words[0], "https://")) {
		e = append(e, tree.Member{Key: "url", Value: words[0]})
	} else {
		e = append(e, tree.Member{Key: "command", Value: words[0]})
		if len(words) > 1 {
			e = append(e, tree.Member{Key: "args", Value: words[1:]})
		}
	}
	for _, m := range []struct {
		key, sep string
		pairs    []string
	}{{"env", "=", f.env}, {"headers", ":", f.headers}} {
		pairs, err := splitPairs(m.key, m.sep, m.pairs)
		if err != nil {
			return nil, err
		}
		if len(pairs) > 0 {
			e = append(e, tree.Member{Key: m.key, Value: pairs})
		}
	}
	if f.cwd != "" {
		e = append(e, tree.Member{Key: "cwd", Value: f.cwd})
	}
	if f.disabled {
		e = append(e, tree.Member{Key: "disabled", Value: true})
	}
	var own tree.Entry
	if f.lazy {
		own = append(own, tree.Member{Key: "lazy", Value: true})
	}
	if f.required {
		own = append(own, tree.Member{Key: "required", Value: true})
	}
	if len(own) > 0 {
		e = append(e, tree.Member{Key: "everline", Value: own})
	}
	return e, nil
}

func splitPairs(key, sep string, pairs []string) (tree.Entry, error) {
	var e tree.Entry
	for _, p := range pairs {
		name, value, ok := strings.Cut(p, sep)
		if !ok || strings.TrimSpace(name) == "" {
			return nil, usage("everline add --help", "%q in %s is not NAME%svalue", name, key, sep)
		}
		e = append(e, tree.Member{Key: strings.TrimSpace(name), Value: strings.TrimLeft(value, " ")})
	}
	return e, nil
}
