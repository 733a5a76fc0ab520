package owned

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace writes a file beside the old one and renames it, so that a reader, a
// crash and a loss of power see one or the other.
func Replace(name string, content []byte, mode fs.FileMode) (err error) {
	dir := filepath.Dir(name)
	f, err := os.CreateTemp(dir, filepath.Base(name)+".*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // the error that matters is the first one
		}
	}()
	if _, err = f.Write(content); err != nil {
		return errors.Join(err, f.Close())
	}
	if err = f.Chmod(mode); err != nil {
		return errors.Join(err, f.Close())
	}
	if err = f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), name); err != nil {
		return err
	}
	return SyncFolder(dir)
}
