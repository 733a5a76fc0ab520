package policy

import (
	"strconv"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/typed"
)

// Unmatched warns of globs of tools that match no tool of the servers which they may
// mean, once all of these have said what they have: toolsOf returns the names of a
// server's tools, or false where that is not known. Globs that can mean no server are
// named when the configuration is read.
func Unmatched(cfg *config.Config, toolsOf func(server string) (names []string, known bool)) []config.Warning {
	var all []config.Warning
	for i := range cfg.Policies {
		p := compile(cfg, &cfg.Policies[i])
		for _, glob := range cfg.Policies[i].Tools {
			if text := p.unmatched(cfg, glob, toolsOf); text != "" {
				all = append(all, config.Warning{Origin: cfg.Policies[i].Origin, Text: "the policy " + cfg.Policies[i].Name + " " + text})
			}
		}
	}
	return all
}

// unmatched says that a glob matches no tool; "" if it does, or if that is not known.
func (p *compiled) unmatched(cfg *config.Config, glob string, toolsOf func(string) ([]string, bool)) string {
	meant, suggestion := false, ""
	for _, s := range cfg.Servers {
		for _, part := range config.PolicyTool(glob) {
			if !catalog.Matches(part[0], s.Name) || p.servers != nil && p.servers[s.Name] == "" {
				continue
			}
			names, known := toolsOf(s.Name)
			if !known {
				return ""
			}
			for _, name := range names {
				if catalog.Matches(part[1], name) {
					return ""
				}
			}
			if meant = true; suggestion == "" {
				suggestion = typed.Meant(part[1], names)
			}
		}
	}
	if !meant {
		return ""
	}
	return "grants the tools " + strconv.Quote(glob) + ", and no tool is called so" + suggestion
}
