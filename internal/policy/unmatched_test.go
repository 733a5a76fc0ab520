package policy

import (
	"strings"
	"testing"

	"github.com/everline/everline/config"
)

func TestUnmatchedTools(t *testing.T) {
	tools := map[string][]string{"git": {"push", "pull"}, "docs": {"search"}, "a.b": {"c"}, "empty": {}}
	cfg := config.New()
	for _, name := range []string{"git", "docs", "a.b", "empty", "away"} {
		cfg.Servers = append(cfg.Servers, config.NewServer(name))
	}
	for _, c := range []struct {
		policy config.Policy
		want   string // "" for no warning
	}{
		{config.Policy{Tools: []string{"git.push"}}, ""},
		{config.Policy{Tools: []string{"git.*", "*.search"}}, ""},
		{config.Policy{Tools: []string{"a.b.c"}}, ""},
		{config.Policy{Tools: []string{"git.psh"}}, `grants the tools "git.psh", and no tool is called so (did you mean "push"?)`},
		{config.Policy{Tools: []string{"git.push", "docs.find_*"}}, `"docs.find_*"`},
		{config.Policy{Tools: []string{"empty.*"}}, `"empty.*"`},
		{config.Policy{Servers: []string{"docs"}, Tools: []string{"*.push"}}, `"*.push"`},
		{config.Policy{Tools: []string{"away.x"}}, ""},
		{config.Policy{Tools: []string{"*.nothing"}}, ""}, // the one that is away may have it
		{config.Policy{Tools: []string{"unknown.x"}}, ""}, // said when the configuration is read
		{config.Policy{Servers: []string{"git"}}, ""},
	} {
		c.policy.Name, c.policy.Origin = "p", config.Origin{File: "everline.json", Line: 7}
		cfg.Policies = []config.Policy{c.policy}
		got := Unmatched(cfg, func(server string) ([]string, bool) { names, known := tools[server]; return names, known })
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0].String(), c.want) || got[0].Line != 7) {
			t.Errorf("%+v: %v, want %q", c.policy, got, c.want)
		}
	}
}
