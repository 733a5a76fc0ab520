package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/fileedit"
	"github.com/everline/everline/internal/owned"
)

// recordName is the file of the state folder that holds, by path, the digest of
// each project file that the user has looked at.
const recordName = "trusted.json"

// keyOf is the path under which a file is trusted, which may be new.
func keyOf(path string) (string, error) {
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

// isTrusted reports whether a digest is one of those that are trusted: of the text
// that the user looked at, of what is read with it, and of what an edit of ours
// made of it.
func isTrusted(known, digest string) bool { return slices.Contains(strings.Fields(known), digest) }

func readRecord(stateDir string) (map[string]string, error) {
	if _, err := os.Stat(stateDir); err == nil {
		if err := owned.Folder(stateDir); err != nil {
			return nil, err // others could have trusted for us
		}
	}
	path := filepath.Join(stateDir, recordName)
	data, err := fileedit.Read(path)
	if err != nil {
		return nil, err
	}
	return parseRecord(path, data)
}

func parseRecord(path string, data []byte) (map[string]string, error) {
	known := map[string]string{}
	if data == nil {
		return known, nil
	}
	if err := json.Unmarshal(data, &known); err != nil {
		return nil, fileedit.Fault("read", path, err)
	}
	return known, nil
}

// editRecord changes what is trusted; an error of change leaves it as it is. The
// folder held, if any, is one that this process has locked.
func editRecord(stateDir, held string, change func(known map[string]string) error) error {
	if err := owned.MakeFolder(stateDir); err != nil {
		return err
	}
	path := filepath.Join(stateDir, recordName)
	_, err := fileedit.Edit{Path: path, Held: held, Change: func(old []byte) ([]byte, error) {
		known, err := parseRecord(path, old)
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

// digests are what is trusted where a text is, read as cfg.
func digests(text []byte, cfg *config.Config, path string) []string {
	all := []string{digest(text)}
	for _, side := range sidesOf(cfg, path) {
		all = append(all, side.digest)
	}
	return all
}

// ErrNotTrusted is what Keep fails with if there is no trust to keep.
var ErrNotTrusted = errors.New("it was not trusted")

// Keep trusts the text that an edit of the user's own makes from one that is
// trusted, or new: nobody else has written in it. It fails with ErrNotTrusted if
// the old text is not trusted. The folder of the file is one that this process
// has locked.
func Keep(stateDir, path string, old, text []byte) error {
	key, err := keyOf(path)
	if err != nil {
		return err
	}
	var before []string
	if len(old) > 0 {
		cfg, err := parsed(path, old)
		if err != nil {
			return err
		}
		before = digests(old, cfg, path)
	}
	cfg, err := parsed(path, text)
	if err != nil {
		return err
	}
	return editRecord(stateDir, filepath.Dir(fileedit.Followed(path)), func(known map[string]string) error {
		for _, d := range before {
			if !isTrusted(known[key], d) {
				return ErrNotTrusted
			}
		}
		all := append(slices.Clone(before), digests(text, cfg, path)...) // what was there is there until the edit is made
		slices.Sort(all)
		known[key] = strings.Join(slices.Compact(all), " ")
		return nil
	})
}

// Grant trusts a file as it was looked at.
func Grant(stateDir string, l Looked) error {
	return editRecord(stateDir, "", func(known map[string]string) error {
		known[l.key] = strings.Join(l.digests, " ")
		return nil
	})
}

// Revoke takes the trust in a file back.
func Revoke(stateDir, path string) error {
	key, err := keyOf(path)
	if err != nil {
		return err
	}
	return editRecord(stateDir, "", func(known map[string]string) error {
		delete(known, key)
		return nil
	})
}
