package config

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/everline/everline/internal/conf/expand"
	"github.com/everline/everline/internal/conf/tree"
)

// seenFrom makes a path absolute that counts from a folder. What begins with a
// kept reference or "~" stays: only the reader of the result knows what it is.
func seenFrom(folder, path string) string {
	if _, home := ofHome(path); home || filepath.IsAbs(path) || strings.HasPrefix(path, expand.KeepOpen) {
		return path
	}
	return filepath.Join(folder, path)
}

// Imported is a server of a client's file as our own file would say it.
type Imported struct {
	Name   string
	Origin Origin
	Entry  tree.Entry
}

// Import reads a text of any format and returns its servers as they would be
// written into our own file, references in our own words: a secret that is in
// a variable stays in it. Servers that are not usable are left out, with a
// warning. env says where the user's folder is, workspace which project counts.
func Import(format, file string, data []byte, workspace string, env func(string) (string, bool)) ([]Imported, []Warning, error) {
	b := newBuilder(func(name string) (string, bool) { return expand.Keep(name), true })
	b.keeping, b.realEnv, b.workspace = true, env, workspace
	if env == nil {
		b.realEnv = func(string) (string, bool) { return "", false }
	}
	b.envFiles = map[string]string{}
	b.readFile = func(folder, path string) (string, error) { return expand.Keep("file:" + seenFrom(folder, path)), nil }
	if err := b.choose(format); err != nil {
		return nil, nil, err
	}
	if f := b.add(file, data); f != nil {
		return nil, nil, f
	}
	var all []Imported
	for _, s := range b.cfg.Servers {
		if s.Err != nil {
			b.cfg.Warnings = append(b.cfg.Warnings, Warning{Origin: s.Origin, Server: s.Name, Text: "is left out: " + s.Err.Text()})
			continue
		}
		if w, plain := s.plainWarning("import copies it as it is"); plain {
			b.cfg.Warnings = append(b.cfg.Warnings, w)
		}
		e := s.Entry()
		if path := b.envFiles[s.Name]; path != "" {
			at := len(e)
			if at > 0 && e[at-1].Key == "everline" {
				at--
			}
			e = slices.Insert(e, at, tree.Member{Key: "envFile", Value: expand.EscapeReferences(path)})
		}
		all = append(all, Imported{s.Name, s.Origin, e})
	}
	return all, b.cfg.Warnings, nil
}
