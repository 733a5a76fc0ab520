package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/fileedit"
	"github.com/everline/everline/internal/owned"
)

// trustName is the file of the state folder that holds, by path, the digest of
// each project file that the user has looked at.
const trustName = "trusted.json"

// mustTrust tells whether a file needs the user's word before a command of it
// is started: it was come across, not named, and anybody may have written it,
// since it came with the folder that the user works in.
func mustTrust(named []string, path string) bool { return len(named) == 0 && !inUserFolder(path) }

// markers are what a folder has that is the top of a repository.
var markers = []string{".git", ".hg", ".jj", ".svn", ".bzr"}

// A project is what a file came with: a repository, or a folder.
type project struct {
	folder     string
	repository bool
}

// projects are those that a file belongs to: by the path to it, which may have
// links in it, and by the place where these lead.
func projects(path string) ([]project, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	all := []project{projectOf(filepath.Dir(abs))}
	key, err := trustKey(path)
	switch {
	case err == nil:
		all = append(all, projectOf(filepath.Dir(key)))
	case !errors.Is(err, fs.ErrNotExist): // in a folder that is not there yet
		return nil, err
	}
	return all, nil
}

// projectOf is the repository around a folder, or the folder where there is none.
func projectOf(dir string) project {
	for at, below := dir, ""; at != below; below, at = at, filepath.Dir(at) {
		for _, name := range markers {
			if _, err := os.Lstat(filepath.Join(at, name)); err == nil {
				return project{at, true}
			}
		}
	}
	return project{dir, false}
}

// fromRepository tells whether a file is in a repository.
func fromRepository(path string) bool {
	all, err := projects(path)
	return err != nil || slices.ContainsFunc(all, func(p project) bool { return p.repository })
}

// inUserFolder tells whether the user has put a file where the own ones are, be
// it as a link to somewhere else.
func inUserFolder(path string) bool {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err == nil { // the working folder may have been come to through a link
		dir, err = filepath.EvalSymlinks(dir)
	}
	own, ownErr := filepath.EvalSymlinks(userFolder())
	return err == nil && ownErr == nil && dir == own
}

// userFolder is where the user's own configuration is; "" if that is nowhere.
func userFolder() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "everline")
}

// checkTrust refuses files that need trust and have none, or have changed
// since they were trusted. Once they are read, as cfg, it looks at what was read
// beside them, too.
func checkTrust(stateDir string, named, files []string, cfg *config.Config) error {
	if err := checkOwned(files, cfg); err != nil {
		return err
	}
	for _, path := range files {
		if !mustTrust(named, path) {
			continue
		}
		key, err := trustKey(path)
		if err != nil {
			return err
		}
		data, err := fileedit.Read(path)
		if err != nil {
			return err
		}
		known, err := readTrust(stateDir)
		if err != nil {
			return err
		}
		was, ok := known[key]
		why := ""
		switch {
		case !ok:
			why = "it came with " + cameWith(path) + ", and nobody has said yet that its commands may be started"
		case !isTrusted(was, digest(data)):
			why = "it has changed since it was trusted"
		default:
			for _, side := range sidesOf(cfg, path) {
				if !isTrusted(was, side.digest) {
					why = side.named + ", which it reads, has changed since it was trusted"
				}
			}
		}
		if why != "" {
			return &fault.Fault{
				Kind: fault.Invalid, Op: opConfig, Outcome: fault.NotSent, Err: fmt.Errorf("%s is not trusted: %s", path, why),
				Remedy: "look at it, then: everline trust " + path,
			}
		}
	}
	return nil
}

func cameWith(path string) string {
	if fromRepository(path) {
		return "a repository"
	}
	return "the folder"
}

// checkOwned refuses files that others could have written, whoever named them.
// Of those that were read beside them, as cfg says, each costs the server that
// it was read for.
func checkOwned(files []string, cfg *config.Config) error {
	for _, path := range files {
		if err := owned.File(path); err != nil {
			return unsafe(path, err)
		}
	}
	if cfg == nil {
		return nil
	}
	if cfg.Pins != config.PinsOff { // who writes there approves for us
		if err := owned.File(cfg.PinsFile); err != nil {
			return unsafe(cfg.PinsFile, err)
		}
	}
	for _, side := range cfg.SideFiles() {
		err := owned.File(side.Path())
		if err == nil {
			continue
		}
		at := slices.IndexFunc(cfg.Servers, func(s config.Server) bool { return s.Name == side.Server && s.Origin.File == side.File })
		switch {
		case at >= 0 && cfg.Servers[at].Err == nil:
			cfg.Servers[at].Err = unsafe(side.Named, err)
		case side.Server == "":
			return unsafe(side.Named, err)
		}
	}
	return nil
}

// unsafe says that a file is not read, for the reason that package owned gives.
func unsafe(path string, err error) *fault.Fault {
	f := *fault.From(opConfig, err)
	f.Op, f.Err = opConfig, fmt.Errorf("%s is not safe: %s", path, f.Text())
	return &f
}

// A side is a file of a repository that was read with a configuration file of it.
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

// isBelow tells whether a file is in one of the projects, by its path or by
// where that leads.
func isBelow(roots []project, f config.SideFile) bool {
	abs, err := filepath.Abs(f.Path())
	real, realErr := trustKey(f.Path())
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

// digests are what is trusted where a text is, read as cfg.
func digests(text []byte, cfg *config.Config, path string) []string {
	all := []string{digest(text)}
	for _, side := range sidesOf(cfg, path) {
		all = append(all, side.digest)
	}
	return all
}

// parsed reads a text as serve would read the file.
func parsed(path string, text []byte) (*config.Config, error) {
	return config.LoadFrom(func(string) ([]byte, error) { return text, nil }, nil, "", path)
}

// trustKey is the path under which a file is trusted, which may be new.
func trustKey(path string) (string, error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	key, err := filepath.Abs(fileedit.Followed(path))
	dir := ""
	if err == nil {
		dir, err = filepath.EvalSymlinks(filepath.Dir(key))
	}
	if err != nil {
		return "", fileedit.Fault("read", path, err)
	}
	return filepath.Join(dir, filepath.Base(key)), nil
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// isTrusted tells whether a digest is one of those that are trusted: of the text
// that the user looked at, of what is read with it, and of what an edit of ours
// made of it.
func isTrusted(known, digest string) bool { return slices.Contains(strings.Fields(known), digest) }

func readTrust(stateDir string) (map[string]string, error) {
	if _, err := os.Stat(stateDir); err == nil {
		if err := owned.Folder(stateDir); err != nil {
			return nil, err // others could have trusted for us
		}
	}
	path := filepath.Join(stateDir, trustName)
	data, err := fileedit.Read(path)
	if err != nil {
		return nil, err
	}
	return parseTrust(path, data)
}

func parseTrust(path string, data []byte) (map[string]string, error) {
	known := map[string]string{}
	if data == nil {
		return known, nil
	}
	if err := json.Unmarshal(data, &known); err != nil {
		return nil, fileedit.Fault("read", path, err)
	}
	return known, nil
}

// editTrust changes what is trusted; an error of change leaves it as it is. The
// folder held, if any, is one that this process has locked.
func editTrust(stateDir, held string, change func(known map[string]string) error) error {
	if err := owned.MakeFolder(stateDir); err != nil {
		return err
	}
	path := filepath.Join(stateDir, trustName)
	_, err := fileedit.Edit{Path: path, Held: held, Change: func(was []byte) ([]byte, error) {
		known, err := parseTrust(path, was)
		if err != nil {
			return nil, err
		}
		if err := change(known); err != nil {
			return nil, err
		}
		text, err := json.MarshalIndent(known, "", "  ")
		if err != nil {
			return nil, fileedit.Fault("write", path, err)
		}
		return append(text, '\n'), nil
	}}.Run()
	return err
}

// untrusted is what to type before serve takes up a file that has changed; ""
// for nothing, as where serve reads it only if it is named.
func untrusted(path string) string {
	if !mustTrust(nil, path) || !fromRepository(path) && !slices.Contains(usualNames[:], filepath.Base(path)) {
		return ""
	}
	return "everline trust " + path
}

var errNotTrusted = errors.New("it was not trusted")

// editTrusted makes an edit of the user's own. Of what was trusted the result
// is trusted, too, and so is a file that is new: nobody else has written in it.
func (a *app) editTrusted(ctx context.Context, path string, dryRun bool, done string, change func(was []byte) ([]byte, error)) error {
	remedy, failed := untrusted(path), error(nil)
	if a.isTakenUp(ctx, path) {
		remedy = ""
	}
	e := fileedit.Edit{Path: path, DryRun: dryRun, Change: change, Before: func(was, text []byte) error {
		if !mustTrust(nil, path) {
			return nil
		}
		if failed = a.keepTrust(path, was, text); failed == nil {
			remedy = ""
		}
		return nil // a file that is not trusted can be edited all the same
	}}
	_, err := a.finishEdit(e, func(fileedit.Result) string { return done }, func() string { return remedy })
	if err == nil && failed != nil && !errors.Is(failed, errNotTrusted) {
		fmt.Fprintf(a.err, "%s could not be trusted: %v\n", path, failed)
	}
	return err
}

// keepTrust trusts what an edit makes of a text that is trusted, or new.
func (a *app) keepTrust(path string, was, text []byte) error {
	key, err := trustKey(path)
	if err != nil {
		return err
	}
	var before []string
	if len(was) > 0 {
		cfg, err := parsed(path, was)
		if err != nil {
			return err
		}
		before = digests(was, cfg, path)
	}
	cfg, err := parsed(path, text)
	if err != nil {
		return err
	}
	return editTrust(a.stateDir, filepath.Dir(fileedit.Followed(path)), func(known map[string]string) error {
		for _, d := range before {
			if !isTrusted(known[key], d) {
				return errNotTrusted
			}
		}
		all := append(slices.Clone(before), digests(text, cfg, path)...) // what was there is there until the edit is made
		slices.Sort(all)
		known[key] = strings.Join(slices.Compact(all), " ")
		return nil
	})
}
