package trust

import (
	"maps"
	"os"
	"slices"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/conf/redact"
	"github.com/everline/everline/internal/conf/tree"
	"github.com/everline/everline/internal/fileedit"
)

// A Looked is what there is to see in a file, and what everline trust has done
// with it: its JSON.
type Looked struct {
	File    string    `json:"file"`
	Trusted bool      `json:"trusted"`
	Servers []Reached `json:"servers"` // what the file names; empty with --revoke
	Reads   []string  `json:"reads"`   // files of the project that are read with it, and trusted with it

	key     string // of the file in the record
	digests []string
}

// Digest is the hash of the text that was looked at: "sha256:" and hexadecimal digits.
func (l Looked) Digest() string { return "sha256:" + l.digests[0] }

// A Reached is what a server starts, or where it is.
type Reached struct {
	Name    string            `json:"name"`
	Command []string          `json:"command"` // with its arguments; of a URL what prints its token, empty for none
	URL     *string           `json:"url"`     // null for a command
	Sends   []string          `json:"sends"`   // the names of the variables or headers that it gets
	Cwd     *string           `json:"cwd"`     // where the command starts; null for the folder of everline
	Values  map[string]string `json:"values"`  // of what it sends, secrets hidden
}

// Look reads a file once: what there is to see in it, and the digests of it and
// of what is read with it.
func Look(path string) (l Looked, err error) {
	l = NothingSeen(path)
	if l.key, err = keyOf(path); err != nil {
		return l, err
	}
	if err := Owned([]string{path}, nil); err != nil {
		return l, err
	}
	data, err := tree.ReadFile(path)
	if err != nil {
		return l, fileedit.Fault("read", path, err)
	}
	cfg, err := parsed(path, data)
	if err != nil {
		return l, err
	}
	if l.Servers, err = reaches(path, data, cfg); err != nil {
		return l, err
	}
	for _, side := range sidesOf(cfg, path) {
		if !slices.Contains(l.Reads, side.named) {
			l.Reads = append(l.Reads, side.named)
		}
	}
	l.digests = digests(data, cfg, path)
	return l, nil
}

// NothingSeen is the Looked of a file that was not read.
func NothingSeen(path string) Looked {
	return Looked{File: path, Servers: []Reached{}, Reads: []string{}}
}

// reaches shows commands and URLs as they are written: a hidden part of them
// could be what matters. What is in variables stays there.
func reaches(path string, data []byte, cfg *config.Config) ([]Reached, error) {
	folder, _ := os.Getwd() // "" reads no project's servers of a user's file
	written, err := config.Options{References: config.AsWritten, Workspace: folder}.Parse(path, data)
	if err != nil {
		return nil, err
	}
	all := []Reached{}
	for _, s := range written.Servers {
		r, gets := Reached{Name: s.Name, Command: []string{}, Values: map[string]string{}}, maps.Clone(s.Headers)
		if s.URL != "" {
			shown := redact.URL(s.URL)
			r.URL = &shown
			if s.Auth.Command != "" {
				r.Command = append([]string{s.Auth.Command}, s.Auth.Args...)
			}
		} else {
			r.Command, gets = append([]string{s.Command}, s.Args...), map[string]string{}
			if read, ok := cfg.Server(s.Name); ok {
				maps.Copy(gets, read.Env) // with those of its envFile
			}
			maps.Copy(gets, s.Env)
		}
		if s.Cwd != "" {
			r.Cwd = &s.Cwd
		}
		for name, value := range gets {
			r.Values[name] = redact.Value(name, value)
		}
		r.Sends = slices.AppendSeq([]string{}, maps.Keys(gets))
		slices.Sort(r.Sends)
		all = append(all, r)
	}
	return all, nil
}

// parsed reads a text as serve would read the file.
func parsed(path string, text []byte) (*config.Config, error) {
	return config.Options{ReadFile: func(string) ([]byte, error) { return text, nil }}.Load(path)
}
