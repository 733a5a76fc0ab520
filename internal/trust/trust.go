// Package trust decides what a configuration file may start that nobody named:
// it finds the files, and keeps the record of those that the user has looked at
// and approved. It asks nobody; commands do.
package trust

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/conf/tree"
	"github.com/everline/everline/internal/owned"
)

// Needed reports whether a file needs the user's approval before a command of it
// is started: it was found, not named, and anybody may have written it, since it
// came with the folder that the user works in.
func Needed(named []string, path string) bool { return len(named) == 0 && !inUserFolder(path) }

// Check refuses files that need trust and have none, or have changed since they
// were trusted. read gives the text that is going to be parsed, or was: what is
// on the disk by now may be another. With the Config that was parsed, Check looks
// at what was read beside the files, too.
func Check(stateDir string, named, files []string, read func(path string) ([]byte, error), cfg *config.Config) error {
	if err := Owned(files, cfg); err != nil {
		return err
	}
	for _, path := range files {
		if !Needed(named, path) {
			continue
		}
		text, err := read(path)
		if err != nil {
			return err
		}
		why, err := distrust(stateDir, path, text, cfg)
		if err != nil {
			return err
		}
		if why != "" {
			return &fault.Fault{
				Kind: fault.Invalid, Op: tree.OpRead, Outcome: fault.NotSent, Err: fmt.Errorf("%s is not trusted: %s", path, why),
				Remedy: "look at it, then: everline trust " + path,
			}
		}
	}
	return nil
}

// distrust says why a text is not trusted; "" if it is.
func distrust(stateDir, path string, text []byte, cfg *config.Config) (why string, err error) {
	key, err := keyOf(path)
	if err != nil {
		return "", err
	}
	known, err := readRecord(stateDir)
	if err != nil {
		return "", err
	}
	trusted, ok := known[key]
	switch {
	case !ok:
		return "it came with " + cameWith(path) + ", and nobody has said yet that its commands may be started", nil
	case !isTrusted(trusted, digest(text)):
		return "it has changed since it was trusted", nil
	}
	for _, side := range sidesOf(cfg, path) {
		if !isTrusted(trusted, side.digest) {
			why = side.named + ", which it reads, has changed since it was trusted"
		}
	}
	return why, nil
}

func cameWith(path string) string {
	if FromRepository(path) {
		return "a repository"
	}
	return "the folder"
}

// Owned refuses files that others could have written, even if the user named them.
// Of those that were read beside them, as cfg says, each costs the server that
// it was read for.
func Owned(files []string, cfg *config.Config) error {
	for _, path := range files {
		if err := owned.File(path); err != nil {
			return unsafe(path, err)
		}
	}
	if cfg == nil {
		return nil
	}
	if cfg.Pins != config.PinsOff { // its writer approves for us
		if err := owned.File(cfg.PinsFile); err != nil {
			return unsafe(cfg.PinsFile, err)
		}
	}
	for _, side := range cfg.SideFiles() {
		err := owned.File(side.Path())
		if err == nil {
			continue
		}
		i := slices.IndexFunc(cfg.Servers, func(s config.Server) bool { return s.Name == side.Server && s.Origin.File == side.File })
		switch {
		case i >= 0 && cfg.Servers[i].Err == nil:
			cfg.Servers[i].Err = unsafe(side.Named, err)
		case side.Server == "":
			return unsafe(side.Named, err)
		}
	}
	return nil
}

// unsafe says that a file is not read, for the reason that package owned gives.
func unsafe(path string, err error) *fault.Fault {
	f := *fault.From(tree.OpRead, err)
	f.Op, f.Err = tree.OpRead, fmt.Errorf("%s is not safe: %s", path, f.Reason())
	return &f
}

// A side is a file of a repository that was read with a configuration file there.
type side struct{ named, digest string }

// sidesOf are the files of a repository that cfg took from beside the
// configuration file: what is elsewhere, such as a secret, does not come with it.
func sidesOf(cfg *config.Config, path string) []side {
	if cfg == nil {
		return nil
	}
	roots, err := projects(path)
	var all []side
	for _, f := range cfg.SideFiles() {
		if f.File == path && (err != nil || isBelow(roots, f)) {
			all = append(all, side{f.Named, digest(append([]byte(f.Named+"\x00"), f.Digest[:]...))})
		}
	}
	return all
}

// isBelow reports whether a file is in one of the projects, by its path or by
// where that leads.
func isBelow(roots []project, f config.SideFile) bool {
	abs, err := filepath.Abs(f.Path())
	real, realErr := keyOf(f.Path())
	if err != nil || realErr != nil {
		return true
	}
	for _, root := range roots {
		for _, p := range []string{abs, real} {
			if rel, err := filepath.Rel(root.folder, p); err == nil && filepath.IsLocal(rel) {
				return true
			}
		}
	}
	return false
}

// Remedy is what to type before serve takes up a file that has changed; ""
// for nothing, as where serve reads it only if it is named.
func Remedy(path string) string {
	if !Needed(nil, path) || !FromRepository(path) && !slices.Contains(UsualNames[:], filepath.Base(path)) {
		return ""
	}
	return "everline trust " + path
}
