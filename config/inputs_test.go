package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/conf/clients"
	"github.com/everline/everline/internal/conf/settings"
)

const inputsFile = `{
  "inputs": [
    {"type": "promptString", "id": "api-key", "description": "the API key", "password": true},
    {"type": "pickString", "id": "region", "options": ["eu", {"label": "USA", "value": "us"}], "default": "eu"},
    {"type": "promptString", "id": "asked-by-nobody"},
  ],
  "servers": {
    "a": {"command": "x", "args": ["${input:region}"], "env": {"K": "${input:api-key}"}},
    "b": {"url": "https://h/", "headers": {"K": "${input:api-key}"}},
    "c": {"command": "x", "args": ["${input:not-declared}"]},
  },
}`

// loadInputs reads the file with an ask, and gives what was asked.
func loadInputs(t *testing.T, answers map[string]string) (*config.Config, []config.Input) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(path, []byte(inputsFile), 0o600); err != nil {
		t.Fatal(err)
	}
	var asked []config.Input
	cfg, err := config.Options{Format: clients.VSCode, Ask: func(i config.Input) (string, bool) {
		asked = append(asked, i)
		v, ok := answers[i.ID]
		return v, ok
	}}.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return cfg, asked
}

// TestInputsAreAsked has answers for all that the file declares, then for none.
func TestInputsAreAsked(t *testing.T) {
	cfg, asked := loadInputs(t, map[string]string{"api-key": "s3cret-key", "region": "us", "not-declared": "x"})
	a, b, c := cfg.Servers[0], cfg.Servers[1], cfg.Servers[2]
	if a.Err != nil || a.Env["K"] != "s3cret-key" || !slices.Equal(a.Args, []string{"us"}) || b.Headers["K"] != "s3cret-key" {
		t.Errorf("%+v\n%+v", a, b)
	}
	if c.Err == nil || !strings.Contains(c.Err.Reason(), "EVERLINE_INPUT_NOT_DECLARED") {
		t.Errorf("an input that nothing declares: %v", c.Err)
	}
	for _, i := range asked {
		switch i.ID {
		case "api-key":
			if !i.Password || i.Description != "the API key" || i.Default != nil || i.Origin.Line != 3 {
				t.Errorf("%+v", i)
			}
		case "region":
			if i.Password || !slices.Equal(i.Options, []string{"eu", "us"}) || *i.Default != "eu" {
				t.Errorf("%+v", i)
			}
		default:
			t.Errorf("asked for %q", i.ID)
		}
	}
	if text := cfg.Hider()("it says s3cret-key"); text != "it says ***" {
		t.Errorf("the answer is no secret: %s", text)
	}
	if text := string(settings.Effective(cfg, true)); strings.Contains(text, "s3cret-key") {
		t.Error("the effective configuration has the answer in it")
	}
}

func TestInputsWithoutAnAnswer(t *testing.T) {
	cfg, asked := loadInputs(t, nil)
	if len(asked) != 3 {
		t.Errorf("asked for %+v", asked)
	}
	if a := cfg.Servers[0]; a.Err == nil || !strings.Contains(a.Err.Reason(), "EVERLINE_INPUT_API_KEY") {
		t.Errorf("%v", a.Err)
	}
	t.Setenv("EVERLINE_INPUT_API_KEY", "from the variable")
	cfg, asked = loadInputs(t, map[string]string{"api-key": "from a person"})
	if a := cfg.Servers[0]; a.Err != nil || a.Env["K"] != "from the variable" || a.Args[0] != "eu" || len(asked) != 1 {
		t.Errorf("%+v, asked for %+v", a, asked)
	}
}
