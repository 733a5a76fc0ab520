// Package clients knows the formats of configuration files: which there are,
// how they are told apart, where clients keep theirs, and what a server of theirs
// would be in our own. It fills in no defaults and judges no server.
package clients

import (
	"path/filepath"
	"slices"

	"github.com/everline/everline/internal/conf/tree"
)

// remote are the words for remote transports that several clients share. What
// a client finds out by trying, HTTP first and then SSE, is found out here.
var remote = map[string]string{
	"stdio": "stdio", "local": "stdio", "sse": "sse",
	"http": "http", "streamable-http": "http", "streamable_http": "http", "streamableHttp": "http",
}

var fallsBack = map[string]string{"stdio": "stdio", "local": "stdio", "sse": "sse", "http": "", "remote": ""}

// clients are the formats besides our own, in the order of Formats.
var clients []client

func init() { // not in the variable, whose functions read it
	clients = []client{
		claudeDesktop(), claudeCode(), cursor(), vscode(), windsurf(), zed(), codex(), gemini(), opencode(), goose(),
	}
}

// underKeys gives the maps that stand under these keys, one of them inside the other.
func underKeys(path ...string) func(*File, *tree.Node) []*tree.Node {
	return func(_ *File, root *tree.Node) []*tree.Node {
		n := root
		for _, name := range path {
			if n = n.Get(name); n == nil {
				return nil
			}
		}
		return []*tree.Node{n}
	}
}

// stdioKeys are what nearly all clients call the parts of a command.
func stdioKeys(more map[string]rule) map[string]rule {
	keys := map[string]rule{"command": as("command"), "args": as("args"), "env": as("env")}
	for name, r := range more {
		keys[name] = r
	}
	return keys
}

func claudeDesktop() client {
	return client{
		name: ClaudeDesktop, title: "Claude Desktop", find: underKeys("mcpServers"),
		keys: stdioKeys(map[string]rule{"type": transport(remote), "url": onlyHere("url"), "headers": onlyHere("headers")}),
	}
}

func claudeCode() client {
	return client{
		name: ClaudeCode, title: "Claude Code", find: claudeScopes,
		dialect: &dialect{open: "${", find: findClaude},
		keys: stdioKeys(map[string]rule{
			"type": transport(remote), "url": address(""), "headers": as("headers"),
			"headersHelper": headersHelper,
			"oauth": oauthClient(map[string]string{
				"clientId": "clientId", "callbackPort": "callbackPort", "scopes": "scopes", "scope": "scopes",
				"authServerMetadataUrl": "authorizationServerMetadata",
			}),
			"timeout": milliseconds("callTimeout"), "alwaysLoad": meaningless,
		}),
	}
}

// claudeScopes gives the servers of the project that the reader stands in
// before those of the user, since the narrower scope wins.
func claudeScopes(r *File, root *tree.Node) []*tree.Node {
	var maps []*tree.Node
	others := 0
	for _, f := range fieldsOf(root.Get("projects")) {
		servers := f.Value.Get("mcpServers")
		switch {
		case servers == nil || len(servers.Fields) == 0:
		case filepath.Clean(f.Name) == r.Workspace:
			maps = append(maps, servers)
		default:
			others++
		}
	}
	if others > 0 {
		r.Warn(root.Get("projects").Pos, "the servers of %d other projects are not read", others)
	}
	if user := root.Get("mcpServers"); user != nil {
		maps = append(maps, user)
	}
	return maps
}

func fieldsOf(n *tree.Node) []tree.Field {
	if n == nil {
		return nil
	}
	return n.Fields
}

func cursor() client {
	return client{
		name: Cursor, title: "Cursor", find: underKeys("mcpServers"), own: []string{"mcpServers"},
		dialect: &dialect{open: "${", find: findEditor},
		keys: stdioKeys(map[string]rule{
			"type": transport(fallsBack), "url": address(""), "headers": as("headers"), "envFile": as("envFile"), "cwd": as("cwd"),
			"auth":     oauthClient(map[string]string{"CLIENT_ID": "clientId", "CLIENT_SECRET": "clientSecret", "scopes": "scopes"}),
			"disabled": as("disabled"),
		}),
	}
}

func vscode() client {
	return client{
		name: VSCode, title: "VS Code", find: vscodeServers, own: []string{"servers", "inputs", "sandbox"},
		dialect: &dialect{open: "${", find: findEditor},
		keys: stdioKeys(map[string]rule{
			"type": transport(fallsBack), "url": address(""), "headers": as("headers"), "envFile": as("envFile"), "cwd": as("cwd"),
			"dev": meaningless, "gallery": meaningless, "version": meaningless,
			"oauth":          oauthClient(map[string]string{"clientId": "clientId", "scopes": "scopes"}),
			"sandboxEnabled": meaningless, // see finish
		}),
		finish: vscodeSandbox,
	}
}

func windsurf() client {
	return client{
		name: Windsurf, title: "Windsurf", find: underKeys("mcpServers"), own: []string{"mcpServers"},
		dialect: &dialect{open: "${", find: findWindsurf},
		keys: stdioKeys(map[string]rule{
			"type": transport(fallsBack), "url": address(""), "serverUrl": address(""), "headers": as("headers"),
			"disabled": as("disabled"), "disabledTools": toolNames("deny"), "alwaysAllow": meaningless,
		}),
		finish: onlyOneURL,
	}
}

// onlyOneURL keeps the first of several addresses.
func onlyOneURL(t *translation, _ *tree.Node) {
	kept := t.std.Fields[:0:0]
	for _, f := range t.std.Fields {
		if f.Name == "url" && slices.ContainsFunc(kept, func(k tree.Field) bool { return k.Name == "url" }) {
			t.r.Warn(f.Pos, "the server has two URLs; the first one counts")
			continue
		}
		kept = append(kept, f)
	}
	t.std.Fields = kept
}

func zed() client {
	return client{
		name: Zed, title: "Zed", find: underKeys("context_servers"),
		keys: map[string]rule{
			"command": zedCommand, "args": as("args"), "env": as("env"), "url": address(""), "headers": as("headers"),
			"enabled": as("enabled"), "source": meaningless, "settings": unused("it belongs to an extension of Zed"),
			"timeout": seconds("callTimeout"), "remote": meaningless,
			"oauth": oauthClient(map[string]string{"client_id": "clientId", "client_secret": "clientSecret", "scopes": "scopes"}),
		},
		skip: func(n *tree.Node) string {
			if n.Kind == tree.Object && n.Get("command") == nil && n.Get("url") == nil {
				return "an extension of Zed starts it"
			}
			return ""
		},
	}
}

// zedCommand takes the text of today, and the object of older versions.
func zedCommand(t *translation, f tree.Field) {
	if f.Value.Kind != tree.Object {
		t.put(t.std, "command", f.Value)
		return
	}
	for _, m := range f.Value.Fields {
		switch m.Name {
		case "path":
			t.put(t.std, "command", m.Value)
		case "args", "env":
			if m.Value.Kind != tree.Null {
				t.put(t.std, m.Name, m.Value)
			}
		default:
			t.r.unknown(m, `in Zed's "command"`, []string{"path", "args", "env"})
		}
	}
}

func codex() client {
	return client{
		name: Codex, title: "Codex", find: underKeys("mcp_servers"),
		keys: stdioKeys(map[string]rule{
			"cwd": as("cwd"), "url": address("http"), "http_headers": as("headers"),
			// The three below are names of variables, resolved once all is read.
			"env_vars": meaningless, "env_http_headers": meaningless, "bearer_token_env_var": meaningless,
			"enabled": as("enabled"), "required": under("required"),
			"startup_timeout_sec": seconds("startupTimeout"), "startup_timeout_ms": milliseconds("startupTimeout"),
			"tool_timeout_sec": seconds("callTimeout"),
			"enabled_tools":    toolNames("allow"), "disabled_tools": toolNames("deny"),
			"scopes": credential("scopes"), "oauth_resource": credential("resource"), "tools": meaningless,
			"oauth":                        oauthClient(map[string]string{"client_id": "clientId"}),
			"supports_parallel_tool_calls": meaningless, "default_tools_approval_mode": meaningless,
		}),
		finish: codexVariables,
	}
}

// codexVariables resolves the members that name variables, once env and headers are
// read: what is written out there goes first.
func codexVariables(t *translation, n *tree.Node) {
	if names := n.Given("env_vars"); names != nil {
		for _, e := range t.list(names) {
			if v, ok := t.r.envOrEmpty(e.Text); ok {
				t.add("env", e.Pos, e.Text, v)
			} else {
				t.r.Warn(e.Pos, "the variable %s is not set; as in Codex, the server does not get it", e.Text)
			}
		}
	}
	for _, f := range fieldsOf(n.Get("env_http_headers")) {
		if v, ok := t.fromEnv(f.Pos, f.Value.Text); ok {
			t.add("headers", f.Pos, f.Name, v)
		}
	}
	if name := n.Given("bearer_token_env_var"); name != nil {
		if v, ok := t.fromEnv(name.Pos, name.Text); ok {
			t.add("headers", name.Pos, "Authorization", "Bearer "+v)
		}
	}
}

func gemini() client {
	return client{
		name: Gemini, title: "Gemini CLI", find: geminiServers,
		dialect: &dialect{open: "${", bare: true, find: findGemini},
		keys: stdioKeys(map[string]rule{
			"type": transport(remote), "cwd": as("cwd"), "headers": as("headers"),
			"httpUrl": meaningless, "url": meaningless, "timeout": milliseconds("callTimeout"),
			"includeTools": toolNames("allow"), "excludeTools": toolNames("deny"),
			"trust": meaningless, "description": meaningless, "extension": meaningless,
			"oauth": oauthClient(map[string]string{
				"clientId": "clientId", "clientSecret": "clientSecret", "scopes": "scopes", "redirectUri": "redirectUri", "enabled": "",
				"authorizationUrl": unusable, "tokenUrl": unusable, "registrationUrl": unusable, "audiences": unusable, "tokenParamName": unusable,
			}),
			"authProviderType": geminiProvider, "targetAudience": meaningless, "targetServiceAccount": meaningless,
		}),
		finish: geminiAddress,
	}
}

// geminiAddress settles that "httpUrl" goes before "url", and that a written
// "type" goes before what the key of the URL says.
func geminiAddress(t *translation, n *tree.Node) {
	target, kind := n.Given("httpUrl"), "http"
	switch {
	case target == nil:
		target, kind = n.Given("url"), "sse"
	case n.Given("url") != nil:
		t.r.Warn(n.Get("url").Pos, `"url" is not read beside "httpUrl"`)
	}
	if target == nil {
		return
	}
	t.put(t.std, "url", target)
	if t.std.Get("type") == nil {
		t.put(t.std, "type", literal(target.Pos, kind))
	}
}

// geminiProvider says of the providers of Google that nothing here is like them.
func geminiProvider(t *translation, f tree.Field) {
	if f.Value.Text != "dynamic_discovery" {
		t.r.Warn(f.Pos, "%q is not used here: a token of %s comes from a program, as \"command\" in \"auth\"", f.Name, f.Value.Text)
	}
}

// geminiServers also obeys "mcp": {"allowed", "excluded"}, which name servers.
func geminiServers(r *File, root *tree.Node) []*tree.Node {
	servers := root.Get("mcpServers")
	if servers == nil || servers.Kind != tree.Object {
		return underKeys("mcpServers")(r, root)
	}
	listed := func(key string) ([]string, bool) {
		mcp := root.Get("mcp")
		if mcp == nil || mcp.Get(key) == nil {
			return nil, false
		}
		var names []string
		for _, e := range mcp.Get(key).List {
			names = append(names, e.Text)
		}
		return names, true
	}
	allowed, limited := listed("allowed")
	excluded, _ := listed("excluded")
	kept := *servers
	kept.Fields = nil
	for _, f := range servers.Fields {
		if limited && !slices.Contains(allowed, f.Name) || slices.Contains(excluded, f.Name) {
			r.Warn(f.Pos, `the server %q is not read: "mcp" leaves it out`, f.Name)
			continue
		}
		kept.Fields = append(kept.Fields, f)
	}
	return []*tree.Node{&kept}
}

func opencode() client {
	return client{
		name: Opencode, title: "opencode", find: opencodeServers,
		dialect: &dialect{open: "{", find: findOpencode},
		keys: map[string]rule{
			"type": transport(fallsBack), "command": opencodeCommand, "args": as("args"), "environment": as("env"), "env": as("env"),
			"cwd": as("cwd"), "url": address(""), "headers": as("headers"), "enabled": as("enabled"), "disabled": as("disabled"),
			"timeout": milliseconds("startupTimeout"),
			"oauth": oauthClient(map[string]string{
				"clientId": "clientId", "clientSecret": "clientSecret", "scope": "scopes", "redirectUri": "redirectUri", "callbackPort": "callbackPort",
			}),
		},
	}
}

// findOpencode knows {env:NAME}, which is empty where it is not set, and {file:path}.
func findOpencode(r *File, ref string) (reference, error) {
	if len(ref) > 4 && ref[:4] == "env:" {
		v, ok := r.envOrEmpty(ref[4:])
		if !ok {
			return reference{known: true, unset: ref[4:], empty: true}, nil
		}
		return reference{value: v, known: true}, nil
	}
	if len(ref) > 5 && ref[:5] == "file:" {
		v, err := r.ReadFile(ref[5:])
		return reference{value: v, known: true}, err
	}
	return reference{}, nil
}

// opencodeServers takes the map of version 1, and the one inside it of version 2.
func opencodeServers(r *File, root *tree.Node) []*tree.Node {
	mcp := root.Get("mcp")
	if mcp == nil {
		return nil
	}
	if inner := mcp.Get("servers"); inner != nil && inner.Kind == tree.Object && inner.Get("type") == nil {
		return []*tree.Node{inner}
	}
	return []*tree.Node{mcp}
}

// opencodeCommand takes the program and its arguments in one list.
func opencodeCommand(t *translation, f tree.Field) {
	if f.Value.Kind != tree.List {
		t.put(t.std, "command", f.Value)
		return
	}
	words := t.list(f.Value)
	if len(words) == 0 {
		t.fail(tree.Invalid(t.r.Path, f.Pos, "write the program and its arguments in the list", "the command is empty"))
		return
	}
	t.put(t.std, "command", words[0])
	t.put(t.std, "args", &tree.Node{Kind: tree.List, Pos: f.Value.Pos, List: words[1:]})
}

func goose() client {
	return client{
		name: Goose, title: "goose", find: underKeys("extensions"),
		keys: map[string]rule{
			"type": transport(remote), "cmd": as("command"), "args": as("args"), "envs": as("env"), "env_keys": meaningless,
			"timeout": seconds("callTimeout"), "enabled": as("enabled"), "uri": address(""), "headers": as("headers"), "cwd": as("cwd"),
			"name": meaningless, "display_name": meaningless, "description": meaningless, "bundled": meaningless,
			"available_tools": gooseTools,
		},
		finish: gooseVariables,
		skip: func(n *tree.Node) string {
			kind := n.Get("type")
			if kind == nil || remote[kind.Text] != "" {
				return ""
			}
			return "an extension of type " + kind.Text + " is a part of goose"
		},
	}
}

// gooseTools is like "allow", but empty means all.
func gooseTools(t *translation, f tree.Field) {
	if len(f.Value.List) > 0 {
		toolNames("allow")(t, f)
	}
}

// gooseVariables adds what "env_keys" names; goose keeps those in its keyring,
// and everline looks in its own environment.
func gooseVariables(t *translation, n *tree.Node) {
	names := n.Given("env_keys")
	if names == nil {
		return
	}
	for _, e := range t.list(names) {
		if plain := n.Given("envs"); plain != nil && plain.Get(e.Text) != nil {
			continue
		}
		if v, ok := t.fromEnv(e.Pos, e.Text); ok {
			t.add("env", e.Pos, e.Text, v)
		}
	}
}
