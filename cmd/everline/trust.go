package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
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
// is started: it was come across in the working folder, not named, and the
// folder belongs to a repository, so that anybody may have written it.
func mustTrust(named []string, path string) bool {
	if len(named) > 0 {
		return false
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err == nil && dir == userFolder() {
		return false
	}
	for err == nil {
		if _, statErr := os.Stat(filepath.Join(dir, ".git")); statErr == nil {
			return true
		}
		if dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	return err != nil
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
// since they were trusted.
func checkTrust(stateDir string, named, files []string) error {
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
		why := "it came with a repository, and nobody has said yet that its commands may be started"
		if was, ok := known[key]; ok {
			if isTrusted(was, data) {
				continue
			}
			why = "it has changed since it was trusted"
		}
		return &fault.Fault{
			Kind: fault.Invalid, Op: opConfig, Outcome: fault.NotSent, Err: fmt.Errorf("%s is not trusted: %s", path, why),
			Remedy: "look at it, then: everline trust " + path,
		}
	}
	return nil
}

// trustKey is the path under which a file is trusted, which may be new.
func trustKey(path string) (string, error) {
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

// isTrusted tells whether a text is one of those that are trusted: the one that
// the user looked at, and what an edit of ours made of it.
func isTrusted(digests string, text []byte) bool {
	return slices.Contains(strings.Fields(digests), digest(text))
}

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

// editTrust changes what is trusted; an error of change leaves it as it is.
func editTrust(stateDir string, change func(known map[string]string) error) error {
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return fileFault("write", stateDir, err)
	}
	path := filepath.Join(stateDir, trustName)
	_, err := edit{path: path, change: func(was []byte) ([]byte, error) {
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

// editTrusted makes an edit of the user's own. Of what was trusted the result
// is trusted, too, and so is a file that is new: nobody else has written in it.
func (a *app) editTrusted(path string, dryRun bool, done string, change func(was []byte) ([]byte, error)) error {
	remedy := untrusted(path)
	keep := func(was, text []byte) {
		if untrusted(path) == "" {
			return
		}
		key, err := trustKey(path)
		if err == nil {
			err = editTrust(a.stateDir, func(known map[string]string) error {
				if len(was) > 0 && !isTrusted(known[key], was) {
					return errors.New("it was not trusted")
				}
				known[key] = digest(text)
				if len(was) > 0 { // is there until the edit is made
					known[key] = digest(was) + " " + known[key]
				}
				return nil
			})
		}
		if err == nil {
			remedy = ""
		}
	}
	e := edit{path: path, dryRun: dryRun, change: change, before: keep}
	return a.finishEdit(e, func() string { return done }, func() string { return remedy })
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
	t := trusting{File: path, Trusted: !revoke, Servers: []reached{}}
	key, err := trustKey(path)
	if err != nil {
		return t, err
	}
	if revoke {
		return t, editTrust(a.stateDir, func(known map[string]string) error {
			delete(known, key)
			return nil
		})
	}
	data, err := config.ReadFile(path)
	if err != nil {
		return t, fileFault("read", path, err)
	}
	cfg, err := config.Parse(path, data, os.LookupEnv)
	if err != nil {
		return t, err
	}
	for _, s := range cfg.Redacted().Servers {
		r, gets := reached{Name: s.Name, Command: []string{}}, s.Env
		if s.URL != "" {
			r.URL, gets = &s.URL, s.Headers
		} else {
			r.Command = append([]string{s.Command}, s.Args...)
		}
		r.Sends = slices.AppendSeq([]string{}, maps.Keys(gets))
		slices.Sort(r.Sends)
		t.Servers = append(t.Servers, r)
	}
	return t, editTrust(a.stateDir, func(known map[string]string) error {
		known[key] = digest(data)
		return nil
	})
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
	return nil
}
