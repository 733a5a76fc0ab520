package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/everline/everline/internal/conf/expand"
)

// ofHome gives what stands behind "~" and a separator at the start of a path.
func ofHome(path string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, "~")
	if !ok || rest != "" && !os.IsPathSeparator(rest[0]) {
		return "", false
	}
	return rest, true
}

// atHome puts the user's folder in place of "~" at the start of a path, as a
// shell would. Where references are kept, so is "~".
func (r *reader) atHome(path string) (string, error) {
	if r.References != Resolved || !strings.HasPrefix(path, "~") {
		return path, nil
	}
	rest, ok := ofHome(path)
	if !ok {
		if strings.ContainsFunc(path, func(c rune) bool { return c < 0x80 && os.IsPathSeparator(byte(c)) }) {
			return "", fmt.Errorf("of %q only \"~/\" is expanded, not the folder of another user", path)
		}
		return path, nil // a file with a strange name
	}
	home, err := r.home()
	if err != nil {
		return "", errors.New("\"~\" stands for the user's folder, and " + err.Error())
	}
	return filepath.Join(home, rest), nil
}

// home is the user's folder, as the environment says.
func (r *reader) home() (string, error) {
	for _, name := range []string{"HOME", "USERPROFILE"} {
		if v, ok := r.Env(name); ok && v != "" {
			return v, nil
		}
	}
	return "", fmt.Errorf("neither HOME nor USERPROFILE is set")
}

// seenFrom makes a path absolute that counts from a folder. What begins with a
// kept reference or "~" stays: only the reader of the result knows what it is.
func seenFrom(folder, path string) string {
	if _, home := ofHome(path); home || filepath.IsAbs(path) || strings.HasPrefix(path, expand.KeepOpen) {
		return path
	}
	return filepath.Join(folder, path)
}

// folder is what a relative "cwd" counts from.
func (r *reader) folder() string {
	if r.client != nil {
		return r.client.Folder()
	}
	return filepath.Dir(r.file)
}
