package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/show"
	"github.com/everline/everline/internal/typed"
)

// places are the files of clients that may be on this machine.
func places() ([]config.Place, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, &fault.Fault{Kind: fault.Invalid, Op: "look for the files of clients", Err: err, Remedy: "set HOME"}
	}
	project, err := os.Getwd()
	if err != nil {
		project = ""
	}
	if project == home {
		project = "" // the user's files would be found twice
	}
	return config.Places(runtime.GOOS, home, os.Getenv("APPDATA"), project), nil
}

// A found is one server of a client's file: the JSON of everline import.
type found struct {
	Client string `json:"client"`
	File   string `json:"file"`
	Server string `json:"server"`
	State  string `json:"state"` // "new", "same" (its name is there already) or "twice" (in an earlier file)

	entry config.Entry
}

func newImport(a *app) *cobra.Command {
	var format, to string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "import [file...]",
		Short: "Find the servers of your other clients, and copy them",
		Long: "Look through the configuration files of ten MCP clients, of this project and of the user, and show the servers\n" +
			"in them. With --to they are copied into an everline.json: references to variables stay references, and a name\n" +
			"that is there already stays as it is. Nothing is started, and no client's file is changed.",
		RunE: runE(func(_ *cobra.Command, args []string) error { return a.importServers(args, format, to, dryRun) }),
	}
	cmd.Flags().StringVar(&format, "format", "", formatFlag())
	cmd.Flags().StringVar(&to, "to", "", "the file of ours to copy the servers into")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "with --to: show the change, and make none")
	return cmd
}

func (a *app) importServers(named []string, format, to string, dryRun bool) error {
	files, err := importFiles(named, format)
	if err != nil {
		return err
	}
	all, err := a.findServers(files, len(named) > 0)
	if err != nil {
		return err
	}
	if to == "" {
		return a.printFound(all)
	}
	count := 0
	e := edit{path: to, dryRun: dryRun, backup: func([]byte) string { return a.backupPath(to) }, change: func(was []byte) ([]byte, error) {
		if err := editable(to, was); err != nil {
			return nil, err
		}
		text := was
		count = 0
		for _, f := range all {
			if f.State == "twice" || config.HasServer(config.FormatEverline, to, text, f.Server) {
				continue
			}
			if text, err = config.SetServer(config.FormatEverline, to, text, f.Server, f.entry); err != nil {
				return nil, err
			}
			count++
		}
		return text, nil
	}}
	remedy := func() string { return untrusted(to) } // some of it may have come with a repository
	return a.finishEdit(e, func() string { return plural(count, "server") + " copied" }, remedy)
}

// importFiles are the files to look through, those that exist.
func importFiles(named []string, format string) ([]config.Place, error) {
	if len(named) > 0 {
		var all []config.Place
		for _, path := range named {
			abs, err := filepath.Abs(path)
			if err != nil {
				return nil, fileFault("read", path, err)
			}
			if _, err := os.Stat(abs); err != nil {
				return nil, fileFault("read", path, err)
			}
			all = append(all, config.Place{Format: format, Path: abs})
		}
		return all, nil
	}
	all, err := places()
	return slices.DeleteFunc(all, func(p config.Place) bool {
		_, err := os.Stat(p.Path)
		return err != nil || format != "" && p.Format != format
	}), err
}

// findServers reads the files. A broken one fails where it was named, and is
// told of where it was only come across.
func (a *app) findServers(files []config.Place, named bool) ([]found, error) {
	all := []found{}
	project, _ := os.Getwd() // "" reads no project's servers of a user's file
	seen := map[string]bool{}
	linked, err := a.readLinks()
	if err != nil {
		return nil, err
	}
	for _, p := range files {
		data, err := readEdited(p.Path)
		var servers []config.Imported
		var warnings []config.Warning
		if err == nil {
			servers, warnings, err = config.Import(p.Format, p.Path, data, project, os.LookupEnv)
		}
		if err != nil && named {
			return nil, err
		}
		if err != nil {
			fmt.Fprintf(a.err, "warning: %v\n", err)
			continue
		}
		for _, w := range warnings {
			fmt.Fprintf(a.err, "warning: %s\n", printable(w.String()))
		}
		format := p.Format
		if format == "" {
			format, _ = config.Detect(p.Path, data) // it was read above
		}
		for _, s := range servers {
			if a.isUs(linked, format, p.Path, data, s) {
				continue
			}
			f := found{Client: config.Title(format), File: p.Path, Server: s.Name, State: "new", entry: s.Entry}
			if seen[s.Name] {
				f.State = "twice"
			}
			seen[s.Name] = true
			all = append(all, f)
		}
	}
	return all, nil
}

// isUs tells whether a server is everline itself, which would be its own server:
// an entry that link wrote, or one that starts everline for its client.
func (a *app) isUs(linked links, format, path string, text []byte, s config.Imported) bool {
	if key, err := linkKey(path); err == nil {
		if w, ok := linked.of(key, s.Name); ok {
			if is, _ := w.isIn(config.Members(format, path, text, s.Name)); is {
				return true
			}
		}
	}
	ours, bridge := false, false
	for _, m := range s.Entry {
		switch v := m.Value.(type) {
		case string:
			base := strings.TrimSuffix(filepath.Base(v), ".exe")
			ours = ours || m.Key == "command" && base == "everline"
			if u, err := url.Parse(v); m.Key == "url" && err == nil && s.Name == config.LinkName && loopbackName(u.Hostname()) {
				return true // what an everline on another state folder wrote
			}
		case []string:
			bridge = bridge || m.Key == "args" && slices.Contains(v, "stdio")
		}
	}
	return ours && bridge
}

func (a *app) printFound(all []found) error {
	switch a.output {
	case "json":
		return writeJSON(a.out, all)
	case "jsonl":
		for _, f := range all {
			if err := writeLine(a.out, f); err != nil {
				return err
			}
		}
		return nil
	}
	if len(all) == 0 {
		fmt.Fprintln(a.out, "no server was found in the files of other clients")
		return nil
	}
	name, client := 0, 0
	for _, f := range all {
		name, client = max(name, len(f.Server)), max(client, len(f.Client))
	}
	for _, f := range all {
		note := ""
		if f.State == "twice" {
			note = "  (the name is taken above)"
		}
		fmt.Fprintf(a.out, "%s  %s  %s%s\n", pad(printable(f.Server), name), pad(f.Client, client), f.File, note)
	}
	fmt.Fprintln(a.out, show.AsStarted("copy them: everline import --to everline.json"))
	return nil
}

func newLink(a *app) *cobra.Command {
	var f linkFlags
	var endpoint, group string
	cmd := &cobra.Command{
		Use:       "link client",
		Short:     "Write our endpoint into a client's own configuration",
		Long:      linkLong("Write the endpoint of everline into a client's own configuration file, as the server \"everline\". What else is\nin the file stays, a server of yours with that name included, and a copy of the file is kept in the state folder."),
		Args:      oneClient,
		ValidArgs: config.Formats()[1:],
		RunE: runE(func(cmd *cobra.Command, args []string) error {
			return a.link(args[0], f, func(format string) (config.Entry, string, error) {
				url, err := a.endpointFor(cmd, endpoint)
				if err != nil {
					return nil, "", err
				}
				url = groupURL(url, group)
				done := config.Title(format) + " reaches everline at " + url + "; restart it to see it"
				if format != config.FormatClaudeDesktop {
					if a.runningFiles(cmd.Context()) == nil {
						done += ", while this runs: everline serve"
					}
					return config.LinkEntry(format, url, ""), done, nil
				}
				program, bridge, err := a.bridge(cmd)
				if err != nil {
					return nil, "", err
				}
				if group != "" {
					bridge = append(bridge, "--group", group)
				}
				return config.LinkEntry(format, url, program, bridge...), done, nil
			})
		}),
	}
	cmd.Flags().StringVar(&endpoint, "endpoint", "", "the URL to write (default: that of the everline that runs, else of the configuration)")
	cmd.Flags().StringVar(&group, "group", "", "the endpoint of this group, in place of that of all servers")
	f.addTo(cmd)
	return cmd
}

// groupURL is the endpoint of a group beside the one of all servers; "" for no
// group. The older form of a group's URL, .../mcp/NAME, becomes the one that
// clients take which expect a path to end in /mcp.
func groupURL(endpoint, group string) string {
	base, named, found := strings.Cut(endpoint, "/mcp/")
	switch {
	case group != "":
		return strings.TrimSuffix(strings.TrimSuffix(endpoint, "/"), "/mcp") + "/groups/" + group + "/mcp"
	case found && named != "" && !strings.Contains(named, "/"):
		return base + "/groups/" + named + "/mcp"
	default:
		return endpoint
	}
}

// bridge is the command by which a client that can only start commands reaches
// everline. It needs nothing of where it is started, or of our environment: a
// client that was started from a desktop has another. Where no everline runs it
// is a whole gateway, and so has to find the configuration, too.
func (a *app) bridge(cmd *cobra.Command) (program string, args []string, err error) {
	if program, err = os.Executable(); err != nil {
		return "", nil, fileFault("find", "this program", err)
	}
	if isBuiltToRun(program) {
		return "", nil, &fault.Fault{
			Kind: fault.Invalid, Op: "link", Outcome: fault.NotSent, Err: errors.New("this program was built by go run, and is gone when it ends"),
			Remedy: "go install github.com/everline/everline/cmd/everline@latest, and link with that",
		}
	}
	if cmd.Flags().Changed("state-dir") || os.Getenv("XDG_STATE_HOME") != "" {
		dir, err := filepath.Abs(a.stateDir)
		if err != nil {
			return "", nil, fileFault("find", a.stateDir, err)
		}
		args = append(args, "--state-dir", dir)
	}
	files, err := a.linkedFiles(cmd.Context())
	args = append(args, "stdio")
	for _, file := range files {
		args = append(args, "--config", file)
	}
	return program, args, err
}

// linkedFiles are the files that a bridge is told to read, by their absolute
// paths. What is named is started without being asked about, so that it has to
// be trusted before; else it is told of none.
func (a *app) linkedFiles(ctx context.Context) ([]string, error) {
	if running := a.runningFiles(ctx); len(running) > 0 {
		return running, nil
	}
	files, err := configFiles(nil)
	if err != nil {
		return nil, nil //nolint:nilerr // there is none yet: the bridge looks for the user's own
	}
	cfg, err := config.Load(files...)
	if err != nil {
		return nil, err
	}
	if f := fault.From("", checkTrust(a.stateDir, nil, files, cfg)); f != nil {
		fmt.Fprintf(a.err, "the link works only while everline serve runs: %s\n  %s, and link again\n", printable(f.Text()), advice(f.Remedy))
		return nil, nil
	}
	if fromRepository(files[0]) {
		fmt.Fprintf(a.err, "%s belongs to a repository: what comes into it later is started without asking\n", printable(files[0]))
	}
	return absolute(files), nil
}

func newUnlink(a *app) *cobra.Command {
	var f linkFlags
	cmd := &cobra.Command{
		Use:       "unlink client",
		Short:     "Take our endpoint out of a client's configuration",
		Long:      linkLong("Take the server \"everline\" out of a client's own configuration file. What else is in it\nstays, and so does an entry that link did not write. A file that link made is removed if nothing else is in it."),
		Args:      oneClient,
		ValidArgs: config.Formats()[1:],
		RunE: runE(func(_ *cobra.Command, args []string) error {
			return a.unlink(args[0], f)
		}),
	}
	f.addTo(cmd)
	return cmd
}

func linkLong(text string) string {
	clients := ""
	for i, c := range config.Formats()[1:] {
		if i > 0 {
			clients += ", "
		}
		clients += c
	}
	return text + "\n\nClients: " + clients + "."
}

// linkFlags are the flags of link and unlink.
type linkFlags struct {
	file, name      string
	project, dryRun bool
}

func (f *linkFlags) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.file, "file", "", "the client's file, where it is not at its usual place")
	cmd.Flags().StringVar(&f.name, "name", config.LinkName, "what the server is called in the client's file")
	cmd.Flags().BoolVar(&f.project, "project", false, "the client's file of this project, not of the user")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "show the change, and make none")
}

// oneClient says which client was probably meant.
func oneClient(cmd *cobra.Command, args []string) error {
	if err := cobra.ExactArgs(1)(cmd, args); err != nil {
		return err
	}
	clients := config.Formats()[1:]
	if slices.Contains(clients, args[0]) {
		return nil
	}
	help := fmt.Sprintf("\n  try: %s --help", cmd.CommandPath())
	if near := typed.Nearest(args[0], clients); near != "" {
		help = "\n  did you mean " + near + "?"
	}
	return fmt.Errorf("no client is called %q here%s", args[0], help)
}

func (a *app) linking(format string, f linkFlags) (*linking, error) {
	path := f.file
	if path == "" {
		var err error
		if path, err = clientFile(format, f.project); err != nil {
			return nil, err
		}
	}
	return a.newLinking(format, path, f.name)
}

func (a *app) link(format string, f linkFlags, make func(format string) (_ config.Entry, done string, _ error)) error {
	l, err := a.linking(format, f)
	if err != nil {
		return err
	}
	entry, done, err := make(format)
	if err != nil {
		return err
	}
	for i := range entry {
		if entry[i].Key == "name" {
			entry[i].Value = f.name
		}
	}
	e := edit{path: l.path, dryRun: f.dryRun, backup: l.backup, before: l.wrote, change: func(was []byte) ([]byte, error) { return l.link(was, entry) }}
	return a.finishEdit(e, func() string { return done }, func() string { return "" })
}

func (a *app) unlink(format string, f linkFlags) error {
	l, err := a.linking(format, f)
	if err != nil {
		return err
	}
	gone, changed := false, false
	e := edit{path: l.path, dryRun: f.dryRun, change: func(was []byte) ([]byte, error) {
		text, err := l.unlink(was)
		gone, changed = text == nil && was != nil, err == nil && len(text) != len(was)
		return text, err
	}}
	err = a.finishEdit(e, func() string {
		if gone {
			return "removed: nothing else was in it"
		}
		return config.Title(format) + " no longer knows everline"
	}, func() string { return "" })
	if err != nil || f.dryRun || !changed {
		return err
	}
	return l.unlinked(gone)
}

// clientFile is the client's file: the first of its usual ones that exists,
// else the first.
func clientFile(format string, project bool) (string, error) {
	all, err := places()
	if err != nil {
		return "", err
	}
	all = slices.DeleteFunc(all, func(p config.Place) bool { return p.Format != format || p.Project != project })
	if len(all) == 0 {
		return "", usage("leave out --project", "%s has no file of a project", config.Title(format))
	}
	for _, p := range all {
		if _, err := os.Stat(p.Path); err == nil {
			return p.Path, nil
		}
	}
	return all[0].Path, nil
}

// endpointFor is the URL for clients: of the everline that runs, else of the
// configuration that serve would read, else the default.
func (a *app) endpointFor(cmd *cobra.Command, named string) (string, error) {
	if named != "" {
		return named, nil
	}
	if st, err := a.client().Status(cmd.Context()); err == nil && st.Endpoint != "" {
		return st.Endpoint, nil
	}
	listen := config.New().Listen
	if files, err := configFiles(nil); err == nil {
		cfg, err := config.Load(files...)
		if err == nil && !loopbackName(hostOf(cfg.Listen)) { // clients are sent to other machines by the user alone
			err = checkTrust(a.stateDir, nil, files, cfg)
		}
		if err != nil {
			return "", err
		}
		listen = cfg.Listen
	}
	if hostOf(listen) == "" {
		return "", errors.New("the configuration's listen address has no host; name the URL with --endpoint")
	}
	return "http://" + listen + "/mcp", nil
}
