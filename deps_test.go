package everline_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/everline/everline"

// mayImport is the import table of the design: which packages of this module
// a package may import. A package that is not listed here fails the test, so
// that a new one gets its line, and its reason, on purpose.
var mayImport = map[string][]string{
	"fault":              {},
	"internal/lifecycle": {},
	"internal/wire":      {},
	"config":             {"internal/typed", "internal/conf/tree", "internal/conf/expand", "fault", "internal/conf/redact", "internal/conf/clients"},
	"event":              {"fault"},
	"internal/catalog":   {"internal/mcp", "internal/wire", "internal/visible", "config", "fault", "internal/owned"},
	"internal/transport": {"internal/wire", "fault"},
	"internal/evidence":  {"fault"},
	"internal/upstream":  {"event", "internal/mcp", "internal/evidence", "internal/transport", "internal/wire", "internal/catalog", "config", "fault", "internal/tracing"},
	// What is counted, where it happens; those who show it read it there.
	"internal/meter": {"internal/mcp", "event", "fault"},
	// What is recorded, where it happens; telemetry alone knows OpenTelemetry.
	"internal/tracing":   {"internal/mcp", "internal/wire", "internal/meter", "event", "fault"},
	"internal/telemetry": {"internal/tracing", "internal/mcp", "event"},
	"internal/slot":      {"internal/typed", "internal/evidence", "internal/lifecycle", "internal/upstream", "internal/catalog", "event", "config", "fault", "internal/transport", "internal/mcp", "internal/door", "internal/meter", "internal/tracing"},
	"internal/fleet":     {"internal/tlsfiles", "internal/door", "internal/typed", "internal/upstream", "internal/transport", "internal/transport/stdio", "internal/transport/http", "internal/slot", "internal/catalog", "internal/orphan", "internal/watch", "event", "config", "fault", "internal/mcp", "internal/cgroup", "internal/auth", "internal/meter", "internal/tracing", "internal/sandbox"},
	".":                  {"internal/typed", "internal/statelock", "internal/rounds", "internal/fleet", "internal/catalog", "internal/policy", "internal/shim", "internal/visible", "event", "config", "fault", "internal/slot", "internal/upstream", "internal/orphan", "internal/mcp", "internal/door", "internal/meter", "internal/auth", "internal/tracing"},
	"internal/gateway":   {"event", "internal/policy", "internal/access", "internal/meter", "internal/message", "internal/mcp", "internal/gateway/session", "internal/gateway/stream", "internal/gateway/task", "internal/rounds", ".", "internal/wire", "fault", "internal/sessions", "internal/pipe", "internal/door", "internal/tracing", "internal/audit"},
	"internal/admin":     {"internal/typed", "internal/statelock", ".", "internal/owned", "event", "config", "fault", "internal/mcp", "internal/door", "internal/auth", "internal/audit", "internal/orphan", "internal/usage"},
	"internal/doctor":    {"internal/audit", "internal/sandbox", "internal/tlsfiles", "internal/auth", "internal/fleet", "internal/typed", "internal/program", ".", "internal/admin", "internal/owned", "internal/show", "event", "config", "fault", "internal/conf/clients"},
	"internal/rounds":    {"internal/mcp", "internal/wire", "fault"},
	"internal/drill":     {"internal/admin", "fault", "internal/mcp"},
	"internal/show":      {"internal/visible", "event"},
	"internal/prompt":    {"internal/show", "config"},
	"internal/toolargs":  {"internal/typed", "fault"},
	"internal/top":       {"internal/admin", "internal/show", "event", "fault"},
	"internal/observe":   {".", "internal/meter", "internal/usage", "event", "config", "fault"},
	// What processes hold and use, as the system tells.
	"internal/usage": {},

	// Credentials toward servers. The texts of an issuer are shown as visible
	// shows them, and files and locks are judged as everywhere else.
	"internal/auth":               {"internal/tlsfiles", "internal/owned", "internal/statelock", "internal/visible", "fault"},
	"internal/mcptest/authserver": {},
	// What TLS toward a server is made of, for its connection and for its logins.
	"internal/tlsfiles": {"fault"},

	// MCP's own words, and the connections that speak them.
	"internal/mcp":             {"internal/wire"},
	"internal/transport/stdio": {"internal/transport", "internal/mcp", "internal/wire", "internal/program", "internal/shim", "internal/orphan", "internal/cgroup", "fault", "internal/sandbox"},
	"internal/transport/http":  {"internal/tlsfiles", "internal/transport", "internal/mcp", "internal/wire", "internal/evidence", "config", "fault", "internal/auth"},

	// The page: what happened of late, and what a browser is served. It acts
	// through the admin API, and shows how clients are linked as the commands do.
	"internal/history": {"event"},
	"internal/web":     {".", "config", "event", "fault", "internal/admin", "internal/history", "internal/owned", "internal/program", "internal/conf/clients", "internal/conf/edit", "internal/conf/redact", "internal/conf/settings", "internal/conf/tree"},

	// What outlives everline of a client's session.
	"internal/activation": {"fault"},
	"internal/peeruid":    {},

	// Who a client is: a value that every layer of the endpoint may look at.
	"internal/access": {},
	// How one is shown; the entrance answers whom it refuses, in the words of the wire.
	"internal/access/entrance": {"internal/access", "internal/access/oidc", "internal/access/tokens", "internal/mcp", "internal/wire", "config"},
	"internal/access/oidc":     {"internal/access", "config"},
	"internal/access/tokens":   {"internal/access", "internal/owned", "internal/statelock", "fault"},

	"internal/sessions": {"internal/owned", "fault"},

	// The record of who did what. Its files and its lock are judged as everywhere
	// else, and what others have written in it is hidden and shown as elsewhere.
	"internal/audit": {"internal/owned", "internal/statelock", "internal/visible", "internal/conf/redact", "config", "event", "fault"},

	// The rooms of the endpoint, and what is a client of it.
	"internal/message":         {"internal/mcp", "internal/rounds", "internal/wire", "fault"},
	"internal/gateway/session": {"event", "internal/access", "internal/meter", "internal/tracing", ".", "internal/door", "internal/gateway/stream", "internal/message", "internal/mcp", "internal/sessions", "internal/wire", "fault"},
	"internal/gateway/stream":  {"internal/mcp", "internal/wire", "fault"},
	"internal/gateway/task":    {".", "internal/mcp", "internal/sessions", "internal/wire", "fault"},
	"internal/bridge":          {"internal/mcp", "internal/wire", "fault", "internal/message", "internal/pipe", "internal/gateway/stream"},
	"internal/pipe":            {"internal/message", "internal/gateway/stream", "internal/mcp", "internal/wire", "fault"},

	// What the binary is made of beside the library: its commands only read
	// flags and write.
	"internal/daemon": {"internal/policy", ".", "internal/door", "internal/meter", "internal/usage", "internal/gateway", "internal/admin", "internal/trust", "internal/conf/tree", "internal/observe", "event", "config", "fault", "internal/sessions", "internal/mcp", "internal/activation", "internal/conf/settings", "internal/conf/redact", "internal/peeruid", "internal/telemetry", "internal/access", "internal/access/entrance", "internal/owned", "internal/history", "internal/web", "internal/visible", "internal/audit", "internal/access/tokens", "internal/tlsfiles"}, // the last two: how the user's own programs come in
	// The record of what is trusted is a file that is edited as others are.
	"internal/trust":         {"internal/owned", "internal/conf/tree", "config", "fault", "internal/fileedit", "internal/conf/redact", "internal/conf/settings"},
	"internal/fileedit":      {"internal/typed", "internal/owned", "internal/conf/tree", "internal/conf/edit", "internal/conf/clients", "config", "fault", "internal/conf/settings", "internal/conf/redact"},
	"internal/conf/tree":     {"fault"},
	"internal/conf/expand":   {},
	"internal/conf/redact":   {"internal/conf/tree", "internal/conf/expand"},
	"internal/conf/edit":     {"internal/conf/tree", "fault", "internal/conf/clients"},
	"internal/conf/clients":  {"internal/conf/tree", "fault", "internal/typed", "internal/conf/expand"},
	"internal/conf/settings": {"internal/conf/tree", "internal/conf/expand", "config"},
	"internal/conf/conftest": {"internal/conf/clients"},

	// What the operating system does for a server's processes. The shim imports
	// nothing of ours, because a shim must be at work before anything else of
	// the program is initialized; the root re-exports the permission to use it,
	// and the fleet ends what an earlier life left behind.
	"internal/shim": {},
	// It starts the program anew, in the place of another.
	"internal/sandbox":   {},
	"internal/statelock": {"internal/owned", "fault"},
	"internal/orphan":    {"internal/cgroup", "internal/owned"},
	"internal/cgroup":    {},

	// Why a command cannot be started, in words: for who starts it, and for who
	// examines it.
	"internal/program": {},

	// Leaves that every layer may use: whose a file is, and how a text is shown
	// in which nothing hides.
	"internal/owned":   {"fault"},
	"internal/visible": {},
	// What people type: the word they meant, and a name as it is written there.
	"internal/typed": {},
	// What programs import beside the root: the endpoint within a program, the
	// shim by an import alone, the official Go SDK's view of a hub, and a server
	// for tests.
	"endpoint":     {".", "internal/gateway", "internal/sessions"},
	"shim":         {"internal/shim"},
	"gosdk":        {".", "endpoint", "fault"},
	"everlinetest": {"internal/mcptest", "config"},

	// What the program's own endpoint and admin API use of a hub beside its public
	// API.
	"internal/door": {"internal/meter", "internal/policy", "internal/tracing"},

	// What a client may do. It matches names as the rules of a server's tools do.
	"internal/policy": {"config", "internal/catalog", "internal/typed"},

	// What a slot waits for between attempts, seen from outside the server.
	"internal/watch": {"fault"},

	// A program that embeds the library, for the official suite.
	"conformance/driver": {".", "config"},

	// The scripted servers and the built-in servers of the demo: peers of
	// everline on the wire, and no part of a request's path.
	"internal/mcptest": {"internal/mcp", "internal/wire", "internal/transport", "fault"},
	"internal/systest": {},
	"internal/demo":    {"internal/mcp", ".", "event", "internal/gateway", "internal/mcptest", "internal/wire", "config", "fault"},
}

// free are folders with their own rules: commands wire everything, and
// programs that are only run by make.
var free = []string{"cmd", "internal/lifecycle/mutants", "conformance", "bench"}

func TestImportTable(t *testing.T) {
	seen := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if path != "." && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"testdata", "node_modules"}, d.Name()) || slices.Contains(free, filepath.ToSlash(path))) {
				return filepath.SkipDir
			}
			return nil
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		pkg := filepath.ToSlash(filepath.Dir(path))
		seen[pkg] = true
		checkFile(t, pkg, path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range []string{"fault", "config", "internal/lifecycle", "internal/slot", "."} {
		if !seen[pkg] {
			t.Errorf("package %s was not found: is the walk broken?", pkg)
		}
	}
}

func checkFile(t *testing.T, pkg, path string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		t.Error(err)
		return
	}
	allowed, known := mayImport[pkg]
	if !known {
		t.Errorf("%s: package %s is not in the import table", path, pkg)
	}
	for _, spec := range f.Imports {
		name := strings.Trim(spec.Path.Value, `"`)
		rel, ours := strings.CutPrefix(name, module)
		switch {
		case ours:
			rel = strings.TrimPrefix(rel, "/")
			if rel == "" {
				rel = "."
			}
			if !slices.Contains(allowed, rel) {
				t.Errorf("%s imports %s, which the import table forbids", path, rel)
			}
		case pkg == "internal/lifecycle" && name != "time" && name != "fmt" && name != "strconv":
			t.Errorf("%s imports %s: the core imports time, and formatting for its transcripts, alone", path, name)
		case strings.Contains(strings.SplitN(name, "/", 2)[0], ".") && !foreignAllowed(pkg, name):
			t.Errorf("%s imports %s, which package %s may not", path, name, pkg)
		}
	}
}

func foreignAllowed(pkg, name string) bool {
	return slices.ContainsFunc(mayImportForeign[pkg], func(p string) bool {
		return name == p || strings.HasPrefix(name, p+"/")
	})
}
