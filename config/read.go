package config

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
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
// server or a setting that is there twice is told in a warning, and the first
// one counts. A file that cannot be read, broken text, a wrong type in a
// top-level setting and an unusable server name are errors of kind
// fault.Invalid that name the place; a bad server is not: it has Err set.
func Load(paths ...string) (*Config, error) { return LoadAs("", paths...) }

// LoadAs is Load where all files have one format, whatever they look like; ""
// finds out each. An unknown format is an error of kind fault.Invalid.
func LoadAs(format string, paths ...string) (*Config, error) {
	return LoadAsking(nil, format, paths...)
}

// LoadAsking is LoadAs where the inputs of VS Code files that no variable
// answers are asked for; a nil ask answers none.
func LoadAsking(ask Ask, format string, paths ...string) (*Config, error) {
	return LoadFrom(ReadFile, ask, format, paths...)
}

// LoadFrom is LoadAsking where read gives the text of each file, once.
func LoadFrom(read func(path string) ([]byte, error), ask Ask, format string, paths ...string) (*Config, error) {
	if len(paths) == 0 {
		return nil, &fault.Fault{Kind: fault.Invalid, Op: tree.OpRead, Err: errors.New("no file was named"), Remedy: "name a file with --config"}
	}
	b := newBuilder(os.LookupEnv)
	b.ask = ask
	if err := b.choose(format); err != nil {
		return nil, err
	}
	if dir, err := os.Getwd(); err == nil {
		b.workspace = dir
	}
	for _, path := range paths {
		data, err := read(path)
		if err != nil {
			return nil, &fault.Fault{
				Kind: fault.Invalid, Op: tree.OpRead, Outcome: fault.NotSent,
				Err: err, Remedy: "check the path, or name another file with --config",
			}
		}
		if f := b.add(path, data); f != nil {
			return nil, f
		}
	}
	b.settle(paths[0])
	return b.cfg, nil
}

func (b *builder) choose(format string) error {
	if format != "" && !slices.Contains(clients.Formats(), format) {
		return &fault.Fault{
			Kind: fault.Invalid, Op: tree.OpRead, Outcome: fault.NotSent,
			Err:    fmt.Errorf("unknown format %q%s", format, typed.Meant(format, clients.Formats())),
			Remedy: "write one of " + strings.Join(clients.Formats(), ", "),
		}
	}
	b.format = format
	return nil
}

// Parse reads one text as if it were the content of file, whose name says the
// format: YAML for .yaml and .yml, TOML for .toml, and JSON with comments for
// every other. env looks variables up; nil knows none. ${file:path} is read
// from the disk, relative to the folder of file.
func Parse(file string, data []byte, env func(string) (string, bool)) (*Config, error) {
	return ParseAs("", file, data, env)
}

// ParseAs is Parse for a text of a known format; "" finds out which it is.
func ParseAs(format, file string, data []byte, env func(string) (string, bool)) (*Config, error) {
	b := newBuilder(env)
	if err := b.choose(format); err != nil {
		return nil, err
	}
	if f := b.add(file, data); f != nil {
		return nil, f
	}
	b.settle(file)
	return b.cfg, nil
}

// ReadFile reads a file as Load does. Of one that is too large it reads only as
// much as tells that.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, tree.MaxFile+1))
}

// A builder adds files to one Config.
type builder struct {
	cfg      *Config
	env      func(string) (string, bool)
	readFile func(folder, path string) (string, error)
	settings map[string]Origin // top-level settings that are decided
	servers  map[string]Origin // servers that are known

	format    string // of all files; "": what each file looks like
	workspace string // the project whose servers of a user's file count; "": none

	// keeping tells that references are kept in place of their values; realEnv
	// is then where variables that say where we are come from.
	keeping  bool
	realEnv  func(string) (string, bool)
	envFiles map[string]string // where keeping: the path of each server's envFile, which is not read

	ask Ask // answers the inputs of VS Code files; nil answers none

	written bool // references stay as they are written, and nothing is read for them
}

func newBuilder(env func(string) (string, bool)) *builder {
	if env == nil {
		env = func(string) (string, bool) { return "", false }
	}
	return &builder{
		cfg: New(), env: env, readFile: expand.ReadFile,
		settings: map[string]Origin{}, servers: map[string]Origin{},
	}
}

// A reader reads one file into a builder's Config.
type reader struct {
	*builder
	file   string
	server string        // the server that is being read; "" outside of one
	client *clients.File // nil for our own format
}

func (r *reader) env(name string) (string, bool) {
	v, ok := r.builder.env(name)
	return expand.Cleaned(v), ok
}

func (r *reader) readFile(path string) (string, error) {
	path, err := r.atHome(path)
	if err != nil {
		return "", err
	}
	text, err := r.builder.readFile(filepath.Dir(r.file), path)
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
	format := b.format
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
		Path: r.file, Workspace: r.workspace, Keep: r.keeping,
		Env: r.env, ReadFile: r.readFile, Home: r.home, Warn: r.warn,
	}
	if r.ask != nil {
		f.Ask = func(i clients.Question) (string, bool) {
			return r.ask(Input{ID: i.ID, Description: i.Description, Password: i.Password, Options: i.Options, Default: i.Default, Variable: i.Variable(), Origin: Origin{r.file, i.Pos.Line}})
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
