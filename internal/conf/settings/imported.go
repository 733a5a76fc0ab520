package settings

import (
	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/conf/tree"
)

// Imported is a server of a client's file as our own file would say it.
type Imported struct {
	Name   string
	Origin config.Origin
	Entry  tree.Entry
}

// Import reads a text of any format and returns its servers as they would be
// written into our own file, references in our own words: a secret that is in
// a variable stays in it. Servers that are not usable are left out, with a
// warning. Of the environment only the user's folder is taken.
func Import(o config.Options, file string, data []byte) ([]Imported, []config.Warning, error) {
	o.References = config.Kept
	cfg, err := o.Parse(file, data)
	if err != nil {
		return nil, nil, err
	}
	var all []Imported
	for _, s := range cfg.Servers {
		if s.Err != nil {
			cfg.Warnings = append(cfg.Warnings, config.Warning{Origin: s.Origin, Server: s.Name, Text: "is left out: " + s.Err.Reason()})
			continue
		}
		if w, plain := s.PlainWarning("import copies it as it is"); plain {
			cfg.Warnings = append(cfg.Warnings, w)
		}
		all = append(all, Imported{s.Name, s.Origin, serverEntry(s, false, func(v any) any { return v })})
	}
	return all, cfg.Warnings, nil
}
