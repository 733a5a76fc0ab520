package config

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/conf/clients"
	"github.com/everline/everline/internal/conf/expand"
	"github.com/everline/everline/internal/conf/tree"
	"github.com/everline/everline/internal/typed"
)

// Load reads the files into one Config, variables from the environment. A
// server or a setting that is there twice is reported in a warning, and the
// first one counts. A file that cannot be read, broken text, a wrong type in a
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

// Options say how files are read. The zero value is how Load reads.
type Options struct {
	// Format is that of all files, our own ("everline") or that of a client, like
	// "cursor"; "": what each file looks like. An unknown one is an error of kind
	// fault.Invalid.
	Format string

	ReadFile  func(path string) ([]byte, error)         // gives the text of a configuration file, once for each; nil: from the disk
	Env       func(name string) (value string, ok bool) // looks variables up; nil: in the environment
	Workspace string                                    // the project whose servers count in a user's file of a client; "": for Load the current folder, else none
	Ask       Ask                                       // nil answers none

	References References

	readSide func(folder, path string) (string, error) // a file that a configuration names; nil: from the disk
}

// References says what becomes of ${VAR} and the like in the texts of servers.
type References uint8

const (
	// Resolved references are replaced by what they refer to.
	Resolved References = iota
	// AsWritten leaves every text as it stands, for people who judge what a file
	// starts: no other file is read and no variable looked up.
	AsWritten
	// Kept references stay, in the words of our own format whatever the file's: the
	// texts of a server are then such as our own file would have, and what it has
	// of an envFile is the path.
	Kept
)

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

// A builder adds files to one Config.
type builder struct {
	Options
	cfg      *Config
	settings map[string]Origin // top-level settings that are decided
	servers  map[string]Origin // servers that are known
}

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

// A reader reads one file into a builder's Config.
type reader struct {
	*builder
	file   string
	server string        // the server that is being read; "" outside of one
	client *clients.File // nil for our own format
}

// env is the value of a variable; where references are kept, the reference.
func (r *reader) env(name string) (string, bool) {
	if r.References == Kept {
		return expand.Keep(name), true
	}
	v, ok := r.Env(name)
	return expand.Cleaned(v), ok
}

func (r *reader) readFile(path string) (string, error) {
	path, err := r.atHome(path)
	if err != nil {
		return "", err
	}
	text, err := r.readSide(filepath.Dir(r.file), path)
	if err == nil {
		r.cfg.sides = append(r.cfg.sides, SideFile{File: r.file, Named: path, Server: r.server, Digest: sha256.Sum256([]byte(text))})
	}
	return expand.Cleaned(text), err
}

func (r *reader) warn(at tree.Pos, format string, args ...any) {
	r.cfg.Warnings = append(r.cfg.Warnings, Warning{
		Origin: Origin{r.file, at.Line}, Server: r.server, Text: fmt.Sprintf(format, args...),
	})
}

// roots are the keys under which clients keep their servers.
var roots = []string{"mcpServers", "servers"}

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
				r.unknown(f, "at the top", known, nil)
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

// clientFile is the file as one of a client; nil for our own format.
func (r *reader) clientFile(format string) *clients.File {
	f := clients.File{
		Path: r.file, Workspace: r.Workspace, Keep: r.References == Kept,
		Env: r.env, ReadFile: r.readFile, Home: r.home, Warn: r.warn,
	}
	if r.Ask != nil {
		f.Ask = func(i clients.Question) (string, bool) {
			return r.Ask(Input{ID: i.ID, Description: i.Description, Password: i.Password, Options: i.Options, Default: i.Default, Variable: i.Variable(), Origin: Origin{r.file, i.Pos.Line}})
		}
	}
	return f.Open(format)
}

func (r *reader) topSettings(n *tree.Node) *fault.Fault {
	if n.Kind == tree.Null {
		return nil
	}
	keys := settings(r.cfg)
	for i := range keys {
		name, set := keys[i].name, keys[i].set
		keys[i].set = func(r *reader, n *tree.Node) *fault.Fault {
			if first, twice := r.settings[name]; twice {
				r.warn(n.Pos, "%q is set already in %s; that one counts", name, first)
				return nil
			}
			r.settings[name] = Origin{r.file, n.Pos.Line}
			return set(r, n)
		}
	}
	return r.object(n, `"everline"`, keys, nil)
}

// String reads "file:line".
func (o Origin) String() string {
	if o.Line == 0 {
		return o.File
	}
	return o.File + ":" + strconv.Itoa(o.Line)
}

// String reads "file:line: server: text".
func (w Warning) String() string {
	text := w.Text
	if w.Server != "" {
		text = w.Server + ": " + text
	}
	if w.File == "" {
		return text
	}
	return w.Origin.String() + ": " + text
}

// object puts the members of n into their places. Unknown members are warned
// of; elsewhere names keys that belong in another place, with that place. The
// first wrong member is returned once all were read.
func (r *reader) object(n *tree.Node, where string, keys []key, elsewhere map[string]string) *fault.Fault {
	if n.Kind != tree.Object {
		return r.wrongKind(n, "an object")
	}
	var first *fault.Fault
	seen := map[string]bool{}
	for _, f := range n.Fields {
		set := find(keys, f.Name)
		switch {
		case set == nil:
			if !tree.IsComment(f.Name) {
				r.unknown(f, "in "+where, names(keys), elsewhere)
			}
		case seen[f.Name]:
			r.warn(f.Pos, "%q is there twice; the first one counts", f.Name)
		case f.Value.Kind == tree.Null:
		default:
			seen[f.Name] = true
			if err := set(r, f.Value); err != nil && first == nil {
				first = &fault.Fault{}
				*first = *err
				first.Err = fmt.Errorf("%w (key %q)", err.Err, f.Name)
			}
		}
	}
	return first
}

func find(keys []key, name string) setter {
	for _, k := range keys {
		if k.name == name {
			return k.set
		}
	}
	return nil
}

func names(keys []key) []string {
	list := make([]string, len(keys))
	for i, k := range keys {
		list[i] = k.name
	}
	return list
}

// replaced are keys of earlier versions, with what to write for them.
var replaced = map[string]string{
	"fastTries": `"fastFor" in "retry", a time: it is tried fast for so long after a loss, whatever the number of tries`,
}

func (r *reader) unknown(f tree.Field, where string, known []string, elsewhere map[string]string) {
	if place := elsewhere[f.Name]; place != "" {
		r.warn(f.Pos, "%q is not read %s; it belongs %s", f.Name, where, place)
		return
	}
	if place := replaced[f.Name]; place != "" {
		r.warn(f.Pos, "%q is not read any more %s; write %s", f.Name, where, place)
		return
	}
	r.warn(f.Pos, "unknown key %q %s%s", f.Name, where, typed.Meant(f.Name, known))
}
