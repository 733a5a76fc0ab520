package daemon

import (
	"crypto/sha256"
	"errors"
	"path/filepath"
	"slices"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/conf/tree"
	"github.com/everline/everline/internal/trust"
)

// A Source is where the configuration comes from.
type Source struct {
	StateDir string     // with the record of what is trusted
	Named    []string   // files; none: the usual ones are looked for
	Format   string     // of all files; "" finds out each
	Ask      config.Ask // answers the inputs of VS Code files; nil answers none
}

// A Loaded is a configuration with the files that it was read from.
type Loaded struct {
	Config *config.Config
	Files  []string

	source Source
	seen   contents // that were parsed
}

// Load finds and reads the configuration. It refuses what is not trusted.
func (s Source) Load() (Loaded, error) {
	files, err := trust.Files(s.Named)
	if err != nil {
		return Loaded{}, err
	}
	return s.read(files)
}

func (s Source) read(files []string) (Loaded, error) {
	texts := trust.Texts{}
	cfg, err := trust.Load(s.StateDir, s.Named, files, texts, s.Ask, s.Format)
	if err != nil {
		return Loaded{}, err
	}
	l := Loaded{Config: cfg, Files: files, source: s, seen: contents{}}
	for file, text := range texts {
		l.seen[file] = sha256.Sum256(text)
	}
	return l, nil
}

// again reads the same files again. What came through a pipe is gone, and to
// open one would wait for a writer.
func (l Loaded) again() (*config.Config, error) {
	for _, file := range l.Files {
		if ReadOnce(file) {
			return nil, &fault.Fault{
				Kind: fault.Invalid, Op: tree.OpRead, Outcome: fault.NotSent, Err: errors.New(file + " is no regular file: it was read once, at the start"),
				Remedy: "restart everline, or name a file with --config",
			}
		}
	}
	now, err := l.source.read(l.Files)
	return now.Config, err
}

// Absolute names files so that a command in another folder finds them, too.
func Absolute(files []string) []string {
	all := slices.Clone(files)
	for i, file := range files {
		if path, err := filepath.Abs(file); err == nil {
			all[i] = path
		}
	}
	return all
}
