package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
	if len(named) > 0 || filepath.IsAbs(path) {
		return false // the user's own folder is given as an absolute path
	}
	dir, err := filepath.Abs(filepath.Dir(path))
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

// checkTrust refuses files that need trust and have none, or have changed
// since they were trusted.
func checkTrust(stateDir string, named, files []string) error {
	for _, path := range files {
		if !mustTrust(named, path) {
			continue
		}
		key, digest, err := trustOf(path)
		if err != nil {
			return err
		}
		known, err := readTrust(stateDir)
		if err != nil {
			return err
		}
		why := "it came with a repository, and nobody has said yet that its commands may be started"
		if was, ok := known[key]; ok {
			if was == digest {
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

// trustOf gives the path and the digest under which a file is trusted.
func trustOf(path string) (key, digest string, err error) {
	key, err = filepath.Abs(path)
	if err == nil {
		key, err = filepath.EvalSymlinks(key)
	}
	if err != nil {
		return "", "", fileFault("read", path, err)
	}
	data, err := os.ReadFile(key)
	if err != nil {
		return "", "", fileFault("read", path, err)
	}
	sum := sha256.Sum256(data)
	return key, hex.EncodeToString(sum[:]), nil
}

func readTrust(stateDir string) (map[string]string, error) {
	path := filepath.Join(stateDir, trustName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]string{}, nil
	}
	known := map[string]string{}
	if err == nil {
		err = json.Unmarshal(data, &known)
	}
	if err != nil {
		return nil, fileFault("read", path, err)
	}
	return known, nil
}

func newTrust(a *app) *cobra.Command {
	var revoke bool
	cmd := &cobra.Command{
		Use:   "trust [file]",
		Short: "Let the commands of a project's configuration be started",
		Long: "A configuration that serve comes across in a repository may start any program, and anybody may have written\n" +
			"it. Look at it, and say with this command that it may. A file that changes afterwards must be trusted again;\n" +
			"files that are named with --config need no trust.",
		Args: cobra.MaximumNArgs(1),
		RunE: runE(func(_ *cobra.Command, args []string) error { return a.trust(args, revoke) }),
	}
	cmd.Flags().BoolVar(&revoke, "revoke", false, "take the trust back")
	return cmd
}

func (a *app) trust(named []string, revoke bool) error {
	files, err := configFiles(named)
	if err != nil {
		return err
	}
	known, err := readTrust(a.stateDir)
	if err != nil {
		return err
	}
	for _, path := range files {
		key, digest, err := trustOf(path)
		if err != nil {
			return err
		}
		if revoke {
			delete(known, key)
			fmt.Fprintf(a.out, "%s is not trusted any more\n", path)
			continue
		}
		cfg, err := config.Load(path)
		if err != nil {
			return err
		}
		known[key] = digest
		fmt.Fprintf(a.out, "%s is trusted; it starts:\n", path)
		for _, s := range cfg.Redacted().Servers {
			if s.Command != "" {
				fmt.Fprintf(a.out, "  %s: %s\n", s.Name, printable(strings.Join(append([]string{s.Command}, s.Args...), " ")))
			}
		}
	}
	text, err := json.MarshalIndent(known, "", "  ")
	if err != nil {
		return fileFault("write", trustName, err)
	}
	if err := os.MkdirAll(a.stateDir, 0o700); err != nil {
		return fileFault("write", a.stateDir, err)
	}
	return writeEdited(filepath.Join(a.stateDir, trustName), nil, append(text, '\n'), "")
}
