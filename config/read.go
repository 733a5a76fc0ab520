package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/conf/clients"
	"github.com/everline/everline/internal/conf/expand"
	"github.com/everline/everline/internal/conf/tree"
	"github.com/everline/everline/internal/typed"
)

// Load reads the files into one Config, variables from the environment. A
// duplicate server or setting is reported in a warning, and the first one
// counts. A file that cannot be read, broken text, a wrong type in a
// top-level setting and an unusable server name are errors of kind
// fault.Invalid that name the place; a bad server is not: it has Err set.
func Load(paths ...string) (*Config, error) { return Options{}.Load(paths...) }

// Parse reads one text as if it were the content of file, whose name says the
// syntax: YAML for .yaml and .yml, TOML for .toml, and JSON with comments for
// every other. env looks variables up; nil knows none. ${file:path} is read
// from the disk, relative to the folder of file.
func Parse(file string, data []byte, env func(string) (string, bool)) (*Config, error) {
	if env == nil {
		env = func(string) (string, bool) { return "", false }
	}
	return Options{Env: env}.Parse(file, data)
}

// Load reads the files into one Config, as the package's Load does.
func (o Options) Load(paths ...string) (*Config, error) {
	if len(paths) == 0 {
		return nil, refused(errors.New("no file was named"), "name a file with --config")
	}
	if o.Workspace == "" {
		o.Workspace, _ = os.Getwd() // without one, no project counts
	}
	if o.ReadFile == nil {
		o.ReadFile = tree.ReadFile
	}
	b, err := o.builder()
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		data, err := o.ReadFile(path)
		if err != nil {
			return nil, refused(err, "check the path, or name another file with --config")
		}
		if f := b.add(path, data); f != nil {
			return nil, f
		}
	}
	return b.done(paths[0]), nil
}

// Parse reads one text, as the package's Parse does.
func (o Options) Parse(file string, data []byte) (*Config, error) {
	b, err := o.builder()
	if err != nil {
		return nil, err
	}
	if f := b.add(file, data); f != nil {
		return nil, f
	}
	return b.done(file), nil
}

func refused(err error, remedy string) error {
	return &fault.Fault{Kind: fault.Invalid, Op: tree.OpRead, Outcome: fault.NotSent, Err: err, Remedy: remedy}
}

// builder makes the builder of a Config. Its Env and readSide are never nil.
func (o Options) builder() (*builder, error) {
	if o.Format != "" && !slices.Contains(clients.Formats(), o.Format) {
		return nil, refused(fmt.Errorf("unknown format %q%s", o.Format, typed.Meant(o.Format, clients.Formats())), "write one of "+strings.Join(clients.Formats(), ", "))
	}
	if o.Env == nil {
		o.Env = os.LookupEnv
	}
	switch {
	case o.References == Kept:
		o.readSide = func(folder, path string) (string, error) { return expand.Keep("file:" + seenFrom(folder, path)), nil }
	case o.readSide == nil:
		o.readSide = expand.ReadFile
	}
	return &builder{Options: o, cfg: New(), settings: map[string]Origin{}, servers: map[string]Origin{}}, nil
}

// done decides what depends on all files together, and gives the Config.
func (b *builder) done(first string) *Config {
	c := b.cfg
	switch b.References {
	case AsWritten:
		return c
	case Kept:
		for i := range c.Servers {
			c.Servers[i].writeOut()
		}
		return c
	case Resolved:
	}
	if c.Pins != PinsOff && c.PinsFile == "" {
		c.PinsFile = filepath.Join(filepath.Dir(first), "everline.lock.json")
	}
	hide := c.Hider()
	for i := range c.Warnings {
		c.Warnings[i].Text = hide(c.Warnings[i].Text)
	}
	var known []string
	for _, s := range c.Servers {
		known = append(known, s.Name)
	}
	for _, g := range c.Groups {
		for _, name := range g.Servers {
			if !slices.Contains(known, name) {
				c.Warnings = append(c.Warnings, Warning{
					Origin: b.settings["groups"], Text: "the group " + g.Name + " names the server " + name + ", which is not configured" + typed.Meant(name, known),
				})
			}
		}
	}
	c.policyWarnings(known)
	return c
}

// writeOut gives the texts of a server with kept references the form that they
// have in a file.
func (s *Server) writeOut() {
	for _, text := range []*string{&s.Command, &s.Cwd, &s.URL, &s.MessageURL, &s.EnvFile} {
		*text = expand.EscapeReferences(*text)
	}
	for i := range s.Args {
		s.Args[i] = expand.EscapeReferences(s.Args[i])
	}
	for _, m := range []map[string]string{s.Env, s.Headers} {
		for k := range m {
			m[k] = expand.EscapeReferences(m[k])
		}
	}
}

// roots are the keys under which clients keep their servers.
var roots = []string{"mcpServers", "servers"}

// add reads one file. What is wrong with a server stays in the server's Err; the
// fault is what makes the whole file unusable.
func (b *builder) add(file string, data []byte) *fault.Fault {
	root, err := tree.Parse(file, data)
	if err != nil {
		return err
	}
	r := &reader{builder: b, file: file}
	if root.Kind == tree.Null && root.Pos.Line == 0 {
		root.Kind = tree.Object
	}
	if root.Kind != tree.Object {
		return r.wrongKind(root, "an object")
	}
	format := b.Format
	if format == "" {
		format = clients.FormatOf(file, root)
	}
	if r.client = r.clientFile(format); r.client != nil {
		for _, m := range r.client.Servers(root) {
			if err := r.serverMap(m); err != nil {
				return err
			}
		}
		return nil
	}
	return r.ourFile(root)
}

// ourFile reads a file of our own format. The other keys at its top are warned
// of, because a setting that is written there has no effect.
func (r *reader) ourFile(root *tree.Node) (err *fault.Fault) {
	if clients.BareServers(root) {
		r.warn(root.Pos, `the servers are not under "mcpServers"; they are read as if they were`)
		return r.serverMap(root)
	}
	found := false
	known := append([]string{"everline", "$schema"}, roots...)
	for _, f := range root.Fields {
		switch f.Name {
		case "everline":
			err = r.topSettings(f.Value)
		case roots[0], roots[1]:
			found = true
			err = r.serverMap(f.Value)
		default:
			if !tree.IsComment(f.Name) {
				r.unknown(f, "at the top", known, misplaced(settings(r.cfg), `in "everline"`))
			}
		}
		if err != nil {
			return err
		}
	}
	if !found {
		r.warn(root.Pos, `there is no "mcpServers", and so no server, in this file`)
	}
	return nil
}

// topSettings reads "everline" at the top. A setting counts once over all files, as
// a server does. What belongs in "auth" is an error beside it: somebody relies on it.
func (r *reader) topSettings(n *tree.Node) *fault.Fault {
	if n.Kind == tree.Null {
		return nil
	}
	for _, f := range n.Fields {
		if find(endpointAuth(r.cfg), f.Name) != nil {
			return tree.Invalid(r.file, f.Pos, `move it into "auth"`, `%q is not read in "everline"; it belongs in "auth" there`, f.Name)
		}
	}
	keys := settings(r.cfg)
	for i := range keys {
		name, set := keys[i].name, keys[i].set
		keys[i].set = func(r *reader, n *tree.Node) *fault.Fault {
			if first, known := r.settings[name]; known {
				r.warn(n.Pos, "%q is set already in %s; that one counts", name, first)
				return nil
			}
			r.settings[name] = Origin{r.file, n.Pos.Line}
			return set(r, n)
		}
	}
	return r.object(n, `"everline"`, keys, nil)
}
