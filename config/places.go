package config

import (
	"path/filepath"

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
	add(FormatClaudeCode, project, true, ".mcp.json")
	add(FormatCursor, project, true, ".cursor/mcp.json")
	add(FormatVSCode, project, true, ".vscode/mcp.json")
	add(FormatZed, project, true, ".zed/settings.json")
	add(FormatCodex, project, true, ".codex/config.toml")
	add(FormatGemini, project, true, ".gemini/settings.json")
	add(FormatOpencode, project, true, "opencode.json", "opencode.jsonc")

	add(FormatClaudeDesktop, appSupport, false, "Claude/claude_desktop_config.json")
	add(FormatClaudeCode, home, false, ".claude.json")
	add(FormatCursor, home, false, ".cursor/mcp.json")
	add(FormatVSCode, appSupport, false, "Code/User/mcp.json")
	add(FormatWindsurf, home, false, ".codeium/windsurf/mcp_config.json")
	if goos == "windows" {
		add(FormatZed, appData, false, "Zed/settings.json")
	} else {
		add(FormatZed, conf, false, "zed/settings.json")
	}
	add(FormatCodex, home, false, ".codex/config.toml")
	add(FormatGemini, home, false, ".gemini/settings.json")
	add(FormatOpencode, conf, false, "opencode/opencode.json", "opencode/opencode.jsonc")
	if goos == "windows" {
		add(FormatGoose, appData, false, "Block/goose/config/config.yaml")
	} else {
		add(FormatGoose, conf, false, "goose/config.yaml")
	}
	return all
}

// LinkName is the name under which clients get everline as a server.
const LinkName = "everline"

// LinkEntry is what a client's file says to reach the endpoint, or, where the
// client can only start commands, to start a bridge to it: program with args.
func LinkEntry(format, endpoint, program string, args ...string) tree.Entry {
	switch format {
	case FormatClaudeDesktop:
		return tree.Pairs("command", program, "args", args)
	case FormatClaudeCode, FormatVSCode:
		return tree.Pairs("type", "http", "url", endpoint)
	case FormatWindsurf:
		return tree.Pairs("serverUrl", endpoint)
	case FormatGemini:
		return tree.Pairs("httpUrl", endpoint)
	case FormatOpencode:
		return tree.Pairs("type", "remote", "url", endpoint, "enabled", true)
	case FormatGoose:
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
