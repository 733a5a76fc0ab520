package config_test

import (
	"strings"
	"testing"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/conf/settings"
)

// TestURLSecretsAreHidden has what lets somebody in by a URL alone.
func TestURLSecretsAreHidden(t *testing.T) {
	const long = "c29tZS1zZWNyZXQtaW4tYmFzZTY0"
	for raw, want := range map[string]string{
		"https://h/mcp?api_key=sk-secret&profile=mine#x?y=z": "https://h/mcp?api_key=***&profile=***#x?y=z",
		"https://h/mcp?config=" + long:                       "https://h/mcp?config=***",
		"https://sk-secret@h/mcp":                            "https://***@h/mcp",
		"https://me:sk-secret@h/mcp?flag":                    "https://me:***@h/mcp?flag",
		"https://h/mcp?access-token=sk%2Dsecret":             "https://h/mcp?access-token=***",
		"https://h/mcp#x?y=z":                                "https://h/mcp#x?y=z",
	} {
		c := mustParse(t, `{"mcpServers": {"a": {"url": "`+raw+`"}}}`)
		if got := c.Redacted().Servers[0].URL; got != want {
			t.Errorf("%s is shown as %s, want %s", raw, got, want)
		}
		if strings.Contains(string(settings.Effective(c, true)), "secret") {
			t.Errorf("%s: the effective configuration shows it", raw)
		}
		told := c.Hider()("Get \"" + raw + "\": refused, sk-secret")
		if strings.Contains(raw, "secret") && strings.Contains(told, "secret") || strings.Contains(told, long) {
			t.Errorf("%s: %s", raw, told)
		}
	}
}

// TestBrokenTextIsNotRepeated has secrets where the syntax is wrong.
func TestBrokenTextIsNotRepeated(t *testing.T) {
	for file, text := range map[string]string{
		"a.json": `{"mcpServers": {"a": {"command": "x", "env": {"K": sk-secret}}}}`,
		"b.json": `{"mcpServers": {"a": {"command": "x", "env": {"K": "sk-\xsecret"}}}}`,
		"c.json": `{"mcpServers": {"a": {"command": "x", "env": {"K": "${sk-secret"}}}}`,
		"d.toml": "[mcpServers.a.env]\nK = sk-secret\n",
		"e.yaml": "mcpServers:\n  a:\n    env:\n      K: \"sk-secret\n",
		"f.yaml": "mcpServers:\n  a:\n    env:\n      K: sk-secret: x\n",
	} {
		c, err := config.Parse(file, []byte(text), nil)
		if err == nil && len(c.Servers) > 0 && c.Servers[0].Err != nil {
			err = c.Servers[0].Err
		}
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", file, err)
		}
	}
}
