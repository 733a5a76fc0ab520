package clients

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/everline/everline/internal/conf/tree"
)

// A Place is where a client keeps a file with servers.
type Place struct {
	Format string
	Path   string
	// Project tells that the file belongs to the project folder, not the user.
	Project bool
}

// Places returns where the clients keep their files on a system (a GOOS), those
// of the project folder before those of the user, in the order of Formats.
// appData is %APPDATA% on Windows, and not used elsewhere. It looks at no disk.
func Places(goos, home, appData, project string) []Place {
	var all []Place
	add := func(format, folder string, isProject bool, names ...string) {
		for _, n := range names {
			if folder != "" {
				all = append(all, Place{format, filepath.Join(folder, filepath.FromSlash(n)), isProject})
			}
		}
	}
	conf, appSupport := filepath.Join(home, ".config"), filepath.Join(home, ".config")
	switch goos {
	case "darwin":
		appSupport = filepath.Join(home, "Library", "Application Support")
	case "windows":
		appSupport = appData
	}
	add(ClaudeCode, project, true, ".mcp.json")
	add(Cursor, project, true, ".cursor/mcp.json")
	add(VSCode, project, true, ".vscode/mcp.json")
	add(Zed, project, true, ".zed/settings.json")
	add(Codex, project, true, ".codex/config.toml")
	add(Gemini, project, true, ".gemini/settings.json")
	add(Opencode, project, true, "opencode.json", "opencode.jsonc")

	add(ClaudeDesktop, appSupport, false, "Claude/claude_desktop_config.json")
	add(ClaudeCode, home, false, ".claude.json")
	add(Cursor, home, false, ".cursor/mcp.json")
	add(VSCode, appSupport, false, "Code/User/mcp.json")
	add(Windsurf, home, false, ".codeium/windsurf/mcp_config.json")
	if goos == "windows" {
		add(Zed, appData, false, "Zed/settings.json")
	} else {
		add(Zed, conf, false, "zed/settings.json")
	}
	add(Codex, home, false, ".codex/config.toml")
	add(Gemini, home, false, ".gemini/settings.json")
	add(Opencode, conf, false, "opencode/opencode.json", "opencode/opencode.jsonc")
	if goos == "windows" {
		add(Goose, appData, false, "Block/goose/config/config.yaml")
	} else {
		add(Goose, conf, false, "goose/config.yaml")
	}
	return all
}

// LinkName is the name under which clients get everline as a server.
const LinkName = "everline"

// LinkEntry is what a client's file says to reach the endpoint, or, where the
// client can only start commands, to start a bridge to it: program with args.
func LinkEntry(format, endpoint, program string, args ...string) tree.Entry {
	switch format {
	case ClaudeDesktop:
		return tree.Pairs("command", program, "args", args)
	case ClaudeCode, VSCode:
		return tree.Pairs("type", "http", "url", endpoint)
	case Windsurf:
		return tree.Pairs("serverUrl", endpoint)
	case Gemini:
		return tree.Pairs("httpUrl", endpoint)
	case Opencode:
		return tree.Pairs("type", "remote", "url", endpoint, "enabled", true)
	case Goose:
		return tree.Pairs(
			"name", LinkName,
			"type", "streamable_http",
			"uri", endpoint,
			"enabled", true,
			"timeout", 300,
			"description", "All MCP servers behind everline",
		)
	default: // Cursor, Zed, Codex
		return tree.Pairs("url", endpoint)
	}
}

// WithToken is an entry of LinkEntry whose client shows a token to the endpoint.
func WithToken(format string, e tree.Entry, token string) tree.Entry {
	return append(e, tree.Member{Key: headersKey(format), Value: tree.Pairs("Authorization", bearer+token)})
}

// TokenIn is the token that an entry in a client's file shows; "" for none.
func TokenIn(format string, server *tree.Node) string {
	if h := server.Get(headersKey(format)); h != nil {
		if value := h.Get("Authorization"); value != nil && strings.HasPrefix(value.Text, bearer) {
			return strings.TrimPrefix(value.Text, bearer)
		}
	}
	return ""
}

const bearer = "Bearer "

func headersKey(format string) string {
	if format == Codex {
		return "http_headers"
	}
	return "headers"
}

// ServersPath is where a format keeps its servers.
func ServersPath(format string, root *tree.Node) []string {
	switch format {
	case VSCode:
		return []string{"servers"}
	case Zed:
		return []string{"context_servers"}
	case Codex:
		return []string{"mcp_servers"}
	case Goose:
		return []string{"extensions"}
	case Opencode:
		if inner := root.Descend([]string{"mcp", "servers"}); inner != nil && inner.Kind == tree.Object {
			return []string{"mcp", "servers"}
		}
		return []string{"mcp"}
	case Everline:
		if root.Get("mcpServers") == nil && root.Get("servers") != nil {
			return []string{"servers"}
		}
		if BareServers(root) {
			return nil
		}
	}
	return []string{"mcpServers"}
}

// BareServers tells whether the file is a map of servers without the key above it.
func BareServers(root *tree.Node) bool {
	servers := 0
	for _, f := range root.Fields {
		if slices.Contains([]string{"everline", "mcpServers", "servers"}, f.Name) {
			return false
		}
		for _, member := range []string{"command", "url"} {
			if c := f.Value.Get(member); c != nil && c.Kind == tree.String {
				servers++
				break
			}
		}
	}
	return servers > 0 && servers == len(root.Fields)
}
