package sessions

import (
	"bytes"
	"crypto/sha256"
	"encoding/gob"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/everline/everline/internal/owned"
)

// maxHandover bounds a file that one endpoint leaves for the next everline: what it
// keeps, and room for what stands around it.
const maxHandover = 80 << 20

// save leaves a list for the next everline. It takes the place of the one before.
func (s *Store) save(path string, list any, what string) error {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(list); err != nil {
		return unable(err)
	}
	if b.Len() > maxHandover {
		return unable(fmt.Errorf("%s of %d bytes are too many", what, b.Len()))
	}
	if err := owned.Replace(path, b.Bytes(), 0o600); err != nil {
		return unable(err)
	}
	return nil
}

// read returns such a list, nil if there is none.
func read[T any](path string) (list []T, err error) {
	b, err := readOwn(path, maxHandover)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = gob.NewDecoder(bytes.NewReader(b)).Decode(&list)
	}
	return list, err
}

// take is read of a list that is there once.
func take[T any](s *Store, path, what string) []T {
	list, err := read[T](path)
	if removed := os.Remove(path); err == nil && !errors.Is(removed, fs.ErrNotExist) {
		err = removed
	}
	if err != nil {
		s.warn(what + " cannot be read: " + err.Error())
	}
	return list
}

func (s *Store) fileOf(prefix, endpoint string) string {
	sum := sha256.Sum256([]byte(endpoint))
	return filepath.Join(s.dir, prefix+hex.EncodeToString(sum[:8]))
}
