//go:build unix

package owned

import (
	"errors"
	"os"
	"syscall"
)

// SyncFolder makes a rename in the folder durable, where the file system can.
func SyncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, d.Close())
}
