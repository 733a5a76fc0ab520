package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
)

// trustName is the file of the state folder that holds, by path, the digest of
// each project file that the user has looked at.
const trustName = "trusted.json"

// mustTrust tells whether a file needs the user's word before a command of it
// is started: it was come across in the working folder, not named, and belongs
// to a repository, so that anybody may have written it.
func mustTrust(named []string, path string) bool {
	if len(named) > 0 || inUserFolder(path) {
		return false
	}
	found, err := repositories(path)
	return err != nil || len(found) > 0
}

// repositories are the folders of those that a file belongs to: above the path
// to it, which may have links in it, and above the place where these lead.
func repositories(path string) ([]string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	starts := []string{filepath.Dir(abs)}
	key, err := trustKey(path)
	switch {
	case err == nil:
		starts = append(starts, filepath.Dir(key))
	case !errors.Is(err, fs.ErrNotExist): // in a folder that is not there yet
		return nil, err
	}
	var found []string
	for _, dir := range starts {
		for up := ""; up != dir; up, dir = dir, filepath.Dir(dir) {
			if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
				found = append(found, dir)
				break
			}
		}
	}
	return found, nil
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
	for _, path := range files {
		if !mustTrust(named, path) {
			continue
		}
		key, err := trustKey(path)
		if err != nil {
			return err
		}
		data, err := readEdited(path)
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
			why = "it came with a repository, and nobody has said yet that its commands may be started"
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

// A side is a file of a repository that was read with a configuration file of it.
type side struct{ named, digest string }

// sidesOf are the files of a repository that cfg took from beside the
// configuration file: what is elsewhere, such as a secret, does not come with it.
func sidesOf(cfg *config.Config, path string) []side {
	if cfg == nil {
		return nil
	}
	roots, err := repositories(path)
	var all []side
	for _, f := range cfg.SideFiles() {
		if f.File == path && (err != nil || isBelow(roots, f)) {
			all = append(all, side{f.Named, digest(append([]byte(f.Named+"\x00"), f.Digest[:]...))})
		}
	}
	return all
}

// isBelow tells whether a file is in one of the folders, by its path or by
// where that leads.
func isBelow(roots []string, f config.SideFile) bool {
	path := f.Named
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(f.File), path)
	}
	abs, err := filepath.Abs(path)
	real, realErr := trustKey(path)
	if err != nil || realErr != nil {
		return true
	}
	for _, root := range roots {
		for _, p := range []string{abs, real} {
			if rel, err := filepath.Rel(root, p); err == nil && filepath.IsLocal(rel) {
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
	key, err := filepath.Abs(followed(path))
	dir := ""
	if err == nil {
		dir, err = filepath.EvalSymlinks(filepath.Dir(key))
	}
	if err != nil {
		return "", fileFault("read", path, err)
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
	path := filepath.Join(stateDir, trustName)
	data, err := readEdited(path)
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
		return nil, fileFault("read", path, err)
	}
	return known, nil
}

// editTrust changes what is trusted; an error of change leaves it as it is. The
// folder held, if any, is one that this process has locked.
func editTrust(stateDir, held string, change func(known map[string]string) error) error {
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return fileFault("write", stateDir, err)
	}
	path := filepath.Join(stateDir, trustName)
	_, err := edit{path: path, held: held, change: func(was []byte) ([]byte, error) {
		known, err := parseTrust(path, was)
		if err != nil {
			return nil, err
		}
		if err := change(known); err != nil {
			return nil, err
		}
		text, err := json.MarshalIndent(known, "", "  ")
		if err != nil {
			return nil, fileFault("write", path, err)
		}
		return append(text, '\n'), nil
	}}.run()
	return err
}

// untrusted is what to type before serve takes up a file that has changed; ""
// for nothing.
func untrusted(path string) string {
	if !mustTrust(nil, path) {
		return ""
	}
	return "everline trust " + path
}

var errNotTrusted = errors.New("it was not trusted")

// editTrusted makes an edit of the user's own. Of what was trusted the result
// is trusted, too, and so is a file that is new: nobody else has written in it.
func (a *app) editTrusted(path string, dryRun bool, done string, change func(was []byte) ([]byte, error)) error {
	remedy, failed := untrusted(path), error(nil)
	e := edit{path: path, dryRun: dryRun, change: change, before: func(was, text []byte) {
		if untrusted(path) == "" {
			return
		}
		if failed = a.keepTrust(path, was, text); failed == nil {
			remedy = ""
		}
	}}
	err := a.finishEdit(e, func() string { return done }, func() string { return remedy })
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
	return editTrust(a.stateDir, filepath.Dir(followed(path)), func(known map[string]string) error {
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

func newTrust(a *app) *cobra.Command {
	var revoke bool
	cmd := &cobra.Command{
		Use:   "trust [file]",
		Short: "Let the commands of a project's configuration be started",
		Long: "A configuration that serve comes across in a repository may start any program, and send your secrets anywhere,\n" +
			"and anybody may have written it. Look at it, and say with this command that it may. A file that changes\n" +
			"afterwards must be trusted again, but for changes by everline add and remove; files that are named with\n" +
			"--config need no trust.",
		Args: cobra.MaximumNArgs(1),
		RunE: runE(func(_ *cobra.Command, args []string) error { return a.trust(args, revoke) }),
	}
	cmd.Flags().BoolVar(&revoke, "revoke", false, "take the trust back")
	return cmd
}

// A trusting is what everline trust has done with a file: its JSON.
type trusting struct {
	File    string    `json:"file"`
	Trusted bool      `json:"trusted"`
	Servers []reached `json:"servers"` // what the file names; empty with --revoke
	Reads   []string  `json:"reads"`   // files of the repository that are read with it, and trusted with it
}

// reached is what a server starts, or where it is.
type reached struct {
	Name    string   `json:"name"`
	Command []string `json:"command"` // with its arguments; empty for a URL
	URL     *string  `json:"url"`     // null for a command
	Sends   []string `json:"sends"`   // the names of the variables or headers that it gets
}

func (a *app) trust(named []string, revoke bool) error {
	files, err := configFiles(named)
	if err != nil {
		return err
	}
	for _, path := range files {
		t, err := a.trustFile(path, revoke)
		if err == nil {
			err = a.printTrust(t)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// trustFile trusts the text that it shows.
func (a *app) trustFile(path string, revoke bool) (trusting, error) {
	t := trusting{File: path, Trusted: !revoke, Servers: []reached{}, Reads: []string{}}
	key, err := trustKey(path)
	if err != nil {
		return t, err
	}
	if revoke {
		return t, editTrust(a.stateDir, "", func(known map[string]string) error {
			delete(known, key)
			return nil
		})
	}
	data, err := config.ReadFile(path)
	if err != nil {
		return t, fileFault("read", path, err)
	}
	cfg, err := parsed(path, data)
	if err != nil {
		return t, err
	}
	if t.Servers, err = reaches(path, data, cfg); err != nil {
		return t, err
	}
	for _, side := range sidesOf(cfg, path) {
		if !slices.Contains(t.Reads, side.named) {
			t.Reads = append(t.Reads, side.named)
		}
	}
	return t, editTrust(a.stateDir, "", func(known map[string]string) error {
		known[key] = strings.Join(digests(data, cfg, path), " ")
		return nil
	})
}

// reaches shows commands and URLs as they are written: a hidden part of them
// could be what matters. What is in variables stays there.
func reaches(path string, data []byte, cfg *config.Config) ([]reached, error) {
	written, err := config.Written(path, data)
	if err != nil {
		return nil, err
	}
	all := []reached{}
	for _, s := range written.Servers {
		r, gets := reached{Name: s.Name, Command: []string{}}, s.Headers
		if s.URL != "" {
			r.URL = &s.URL
		} else {
			r.Command = append([]string{s.Command}, s.Args...)
			gets = s.Env
			if is, ok := cfg.Server(s.Name); ok && len(is.Env) > 0 {
				gets = is.Env // with the names of its envFile
			}
		}
		r.Sends = slices.AppendSeq([]string{}, maps.Keys(gets))
		slices.Sort(r.Sends)
		all = append(all, r)
	}
	return all, nil
}

func (a *app) printTrust(t trusting) error {
	if a.forMachines() {
		return writeLine(a.out, t)
	}
	if !t.Trusted {
		_, err := fmt.Fprintf(a.out, "%s is not trusted any more\n", t.File)
		return err
	}
	fmt.Fprintf(a.out, "%s is trusted; it starts or connects to:\n", t.File)
	for _, r := range t.Servers {
		where, what := strings.Join(r.Command, " "), "variables"
		if r.URL != nil {
			where, what = *r.URL, "headers"
		}
		if len(r.Sends) > 0 {
			where += "  (" + what + ": " + strings.Join(r.Sends, ", ") + ")"
		}
		fmt.Fprintf(a.out, "  %s: %s\n", printable(r.Name), printable(where))
	}
	if len(t.Reads) > 0 {
		fmt.Fprintf(a.out, "with what is in: %s\n", printable(strings.Join(t.Reads, ", ")))
	}
	return nil
}
