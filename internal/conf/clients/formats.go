package clients

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/everline/everline/internal/conf/tree"
	"github.com/everline/everline/internal/typed"
)

// The formats: our own, and those of ten clients.
const (
	Everline      = "everline"
	ClaudeDesktop = "claude-desktop"
	ClaudeCode    = "claude-code"
	Cursor        = "cursor"
	VSCode        = "vscode"
	Windsurf      = "windsurf"
	Zed           = "zed"
	Codex         = "codex"
	Gemini        = "gemini"
	Opencode      = "opencode"
	Goose         = "goose"
)

// Formats returns the names of all formats, our own first.
func Formats() []string {
	all := []string{Everline}
	for _, c := range clients {
		all = append(all, c.name)
	}
	return all
}

// Title is the name by which people know the client of a format.
func Title(format string) string {
	if c := clientNamed(format); c != nil {
		return c.title
	}
	return format
}

// A client is how one client writes its servers down.
type client struct {
	name, title string
	dialect     *dialect // nil: texts are taken as they are
	// own tells that the file holds servers and nothing else, so that what is
	// unknown at its top is worth a warning.
	own []string
	// find gives the maps of servers of a file; of two servers with one name
	// the first counts.
	find func(r *File, root *tree.Node) []*tree.Node
	// keys say what the members of a server become.
	keys map[string]rule
	// finish settles what depends on several members; may be nil.
	finish func(t *translation, n *tree.Node)
	// skip tells why an entry is no MCP server; "" if it is one. May be nil.
	skip func(n *tree.Node) string
}

func clientNamed(name string) *client {
	for i := range clients {
		if clients[i].name == name {
			return &clients[i]
		}
	}
	return nil
}

// Detect says in which format a text is, by its shape, and by the file's name
// where several clients share one shape. It returns an error where the text
// cannot be parsed at all.
func Detect(file string, data []byte) (string, error) {
	root, err := tree.Parse(file, data)
	if err != nil {
		return "", err
	}
	return FormatOf(file, root), nil
}

// FormatOf never fails: what is no client's shape is read as our own.
func FormatOf(file string, root *tree.Node) string {
	object := func(name string) bool {
		n := root.Get(name)
		return n != nil && n.Kind == tree.Object
	}
	switch {
	case root.Kind != tree.Object || root.Get("everline") != nil && root.Get("everline").Kind == tree.Object && root.Get("mcp") == nil:
		return Everline
	case object("context_servers"):
		return Zed
	case object("mcp_servers"):
		return Codex
	case object("extensions") && isExtensions(root.Get("extensions")):
		return Goose
	case object("mcpServers"):
		return detectShared(file, root)
	case object("projects") && hasProjectServers(root.Get("projects")):
		return ClaudeCode
	case object("servers") && (root.Get("inputs") != nil || inFolder(file, ".vscode") || strings.HasSuffix(filepath.ToSlash(file), "User/mcp.json")):
		return VSCode
	case object("mcp") && isOpencode(root.Get("mcp")):
		return Opencode
	default:
		return Everline
	}
}

// detectShared tells apart the clients that all write "mcpServers".
func detectShared(file string, root *tree.Node) string {
	slashed := filepath.ToSlash(file)
	switch {
	case filepath.Base(slashed) == "claude_desktop_config.json":
		return ClaudeDesktop
	case filepath.Base(slashed) == ".mcp.json", filepath.Base(slashed) == ".claude.json", root.Get("projects") != nil:
		return ClaudeCode
	case inFolder(file, ".cursor"):
		return Cursor
	case filepath.Base(slashed) == "mcp_config.json", inFolder(file, "windsurf"):
		return Windsurf
	case inFolder(file, ".gemini"):
		return Gemini
	}
	for _, f := range root.Get("mcpServers").Fields {
		switch {
		case f.Value.Get("httpUrl") != nil, f.Value.Get("includeTools") != nil, f.Value.Get("excludeTools") != nil:
			return Gemini
		case f.Value.Get("serverUrl") != nil, f.Value.Get("disabledTools") != nil:
			return Windsurf
		}
	}
	return Everline
}

func inFolder(file, folder string) bool { return filepath.Base(filepath.Dir(file)) == folder }

// isExtensions tells goose's map from others of that name.
func isExtensions(n *tree.Node) bool {
	return slices.ContainsFunc(n.Fields, func(f tree.Field) bool {
		return f.Value.Get("cmd") != nil || f.Value.Get("uri") != nil || f.Value.Get("type") != nil
	})
}

func hasProjectServers(n *tree.Node) bool {
	return slices.ContainsFunc(n.Fields, func(f tree.Field) bool { return f.Value.Get("mcpServers") != nil })
}

func isOpencode(n *tree.Node) bool {
	if s := n.Get("servers"); s != nil && s.Kind == tree.Object {
		return true
	}
	return slices.ContainsFunc(n.Fields, func(f tree.Field) bool {
		kind := f.Value.Get("type")
		return kind != nil && (kind.Text == "local" || kind.Text == "remote")
	})
}

// A File is one file of a client while it is read.
type File struct {
	Path      string
	Workspace string // the project whose servers of a user's file count; "": none
	Keep      bool   // references are kept in place of their values

	Env      func(name string) (string, bool)
	ReadFile func(path string) (string, error)
	Home     func() (string, error)
	Ask      func(Question) (answer string, known bool) // nil answers none
	Warn     func(at tree.Pos, format string, args ...any)

	client  *client
	inputs  map[string]Question
	sandbox *tree.Node // of VS Code; empty if the file has none
}

// Open returns the file as one of a format's client; nil for our own format.
func (r File) Open(format string) *File {
	r.client = clientNamed(format)
	if r.client == nil {
		return nil
	}
	return &r
}

// Servers gives the maps of servers in the file; of two servers with one name
// the first counts.
func (r *File) Servers(root *tree.Node) []*tree.Node {
	c := r.client
	if c.own != nil {
		for _, f := range root.Fields {
			if !tree.IsComment(f.Name) && !slices.Contains(c.own, f.Name) {
				r.unknown(f, "at the top", c.own)
			}
		}
	}
	maps := c.find(r, root)
	if len(maps) == 0 {
		r.Warn(root.Pos, "there is no server in this file, read as one of %s", c.title)
	}
	for i, m := range maps {
		maps[i] = r.withoutSkipped(m)
	}
	return maps
}

func (r *File) unknown(f tree.Field, where string, known []string) {
	r.Warn(f.Pos, "unknown key %q %s%s", f.Name, where, typed.Meant(f.Name, known))
}

// withoutSkipped leaves out entries that are no MCP servers.
func (r *File) withoutSkipped(m *tree.Node) *tree.Node {
	c := r.client
	if c.skip == nil {
		return m
	}
	kept := *m
	kept.Fields = nil
	for _, f := range m.Fields {
		if why := c.skip(f.Value); why != "" {
			r.Warn(f.Pos, "%q is not read: %s", f.Name, why)
			continue
		}
		kept.Fields = append(kept.Fields, f)
	}
	return &kept
}

// projectFolders are where clients keep the file of one project.
var projectFolders = []string{".cursor", ".vscode", ".zed", ".codex", ".gemini", ".opencode"}

// Folder is what relative names of the file count from: the project's folder
// for a file of one project, else the file's own.
func (r *File) Folder() string {
	dir := filepath.Dir(r.Path)
	if slices.Contains(projectFolders, filepath.Base(dir)) {
		return filepath.Dir(dir)
	}
	return dir
}

// ofProject tells whether the file belongs to one project, so that its
// commands start in the project's folder.
func (r *File) ofProject() bool {
	dir := filepath.Dir(r.Path)
	if home, err := r.Home(); err == nil && filepath.Clean(home) == filepath.Clean(r.Folder()) {
		return false
	}
	return slices.Contains(projectFolders, filepath.Base(dir)) || filepath.Base(r.Path) == ".mcp.json"
}
