package audit

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/owned"
)

// keptName is the file of a state folder that says how the last everline on it kept
// its record, for who does something to the folder while none runs.
const keptName = "audit.settings"

// Keep says for later how an everline on a state folder keeps its record.
func Keep(stateDir string, s config.Audit) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return owned.Replace(filepath.Join(stateDir, keptName), append(text, '\n'), 0o600)
}

// maxKept bounds that file in bytes.
const maxKept = 64 << 10

// Kept is what Keep has said last; the defaults where there was no everline yet.
func Kept(stateDir string) (s config.Audit, err error) {
	defaults := config.New().Audit
	path := filepath.Join(stateDir, keptName)
	f, err := owned.Open(path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return defaults, nil
	}
	if err != nil {
		return defaults, err
	}
	defer f.Close()
	s = defaults
	if err := json.NewDecoder(io.LimitReader(f, maxKept)).Decode(&s); err != nil {
		return defaults, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return s, nil
}

// Append writes one record behind those that there are. It returns when the disk has
// it. It is for a process that has only this one to tell, and fails where another
// writes to the folder for long.
func Append(ctx context.Context, o Options, r *Record) error {
	l, err := Open(o)
	if err == nil {
		l.Note(r)
		err = l.Sync(ctx)
	}
	return errors.Join(err, l.Close(ctx))
}
