package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/owned"
	"github.com/everline/everline/internal/wire"
)

// A Saved is what is kept of one server between runs.
type Saved struct {
	Catalog *Catalog        // last good, without TTL; nil if there is none
	Gen     uint64          // newest generation ever started
	Era     json.RawMessage // what a generation found out, opaque here; nil if unknown
}

// A Store keeps one file for each server in a folder that it makes when it is
// needed. Different keys may be used at the same time; a file is written as a
// whole or not at all. It knows nothing about configuration.
type Store struct{ Dir string }

// extension marks the files that belong to a Store.
const extension = ".catalog"

// Save replaces what is kept under key. If nothing but the time of the listing
// differs from what is there, the disk is left alone. Errors are of kind
// Internal; what was there before is then still there.
func (s *Store) Save(key string, saved Saved) error {
	name := s.path(key)
	next := encode(key, saved)
	if old, err := os.ReadFile(name); err == nil && sameBody(old, next) {
		return nil
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return &fault.Fault{Kind: fault.Internal, Op: "save catalog", Err: err}
	}
	if err := owned.Replace(name, next, 0o600); err != nil {
		return &fault.Fault{Kind: fault.Internal, Op: "save catalog", Err: err}
	}
	return nil
}

// Load returns what is kept under key: nil without an error if there is
// nothing or if an other version of everline wrote it. A file that cannot be
// read or is damaged gives an error of kind Internal or Invalid; the caller
// can go on without it, and the next Save replaces it.
func (s *Store) Load(key string) (*Saved, error) {
	b, err := os.ReadFile(s.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &fault.Fault{Kind: fault.Internal, Op: "load catalog", Err: err}
	}
	saved, err := decode(key, b)
	if err != nil {
		return nil, &fault.Fault{Kind: fault.Invalid, Op: "load catalog", Err: &fs.PathError{Op: "read", Path: s.path(key), Err: err}}
	}
	return saved, nil
}

// Remove forgets what is kept under key, and what writers that were killed
// left beside it. Nothing there is no error.
func (s *Store) Remove(key string) error {
	var errs []error
	left, _ := filepath.Glob(s.path(key) + ".*.tmp") // the pattern is well-formed: see path
	for _, name := range append(left, s.path(key)) {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return &fault.Fault{Kind: fault.Internal, Op: "remove catalog", Err: err}
	}
	return nil
}

// path is the file of a key: what a person can read of it, and a hash of all
// of it. It has no characters that mean something to a file system or a glob.
func (s *Store) path(key string) string {
	sum := sha256.Sum256([]byte(key))
	head := plain(key)
	return filepath.Join(s.Dir, head[:min(len(head), 40)]+"-"+hex.EncodeToString(sum[:8])+extension)
}

// The file: magic, SHA-256 of all that follows, time of the listing, body. The
// time is outside of the body because a new one alone is not worth a write.
const (
	family = "everline catalog "
	magic  = family + "3\n"
	before = family + "2\n" // as long as magic
	bodyAt = len(magic) + sha256.Size + 8
	noTime = int64(-1) << 63
)

func sameBody(a, b []byte) bool {
	return len(a) >= bodyAt && len(b) >= bodyAt && bytes.Equal(a[:len(magic)], b[:len(magic)]) &&
		intact(a) && bytes.Equal(a[bodyAt:], b[bodyAt:])
}

func intact(b []byte) bool {
	sum := sha256.Sum256(b[len(magic)+sha256.Size:])
	return bytes.Equal(sum[:], b[len(magic):len(magic)+sha256.Size])
}

func encode(key string, saved Saved) []byte {
	w := writer{b: make([]byte, bodyAt, 4096)}
	copy(w.b, magic)
	nanos := noTime
	if saved.Catalog != nil && !saved.Catalog.At.IsZero() {
		nanos = saved.Catalog.At.UnixNano()
	}
	putInt64(w.b[bodyAt-8:], nanos)
	w.text(key)
	w.uint(saved.Gen)
	w.bytes(saved.Era)
	w.flag(saved.Catalog != nil)
	if saved.Catalog != nil {
		w.catalog(saved.Catalog)
	}
	return seal(w.b)
}

// seal puts the checksum in.
func seal(b []byte) []byte {
	sum := sha256.Sum256(b[len(magic)+sha256.Size:])
	copy(b[len(magic):], sum[:])
	return b
}

// decode returns nil and no error for a file of another version.
func decode(key string, b []byte) (*Saved, error) {
	if !bytes.HasPrefix(b, []byte(family)) {
		return nil, errors.New("not a catalog file")
	}
	old := bytes.HasPrefix(b, []byte(before))
	if !old && !bytes.HasPrefix(b, []byte(magic)) {
		return nil, nil
	}
	if len(b) < bodyAt || !intact(b) {
		return nil, errors.New("the file is damaged")
	}
	r := reader{b: b[bodyAt:], old: old}
	if r.text() != key {
		return nil, errors.New("the file belongs to another server")
	}
	saved := &Saved{Gen: r.uint(), Era: r.bytes()}
	if r.flag() {
		saved.Catalog = r.catalog()
		if nanos := int64At(b[bodyAt-8:]); nanos != noTime {
			saved.Catalog.At = time.Unix(0, nanos)
		}
	}
	if r.bad || len(r.b) > 0 {
		return nil, errors.New("the file is damaged")
	}
	if old && saved.Catalog != nil {
		saved.Catalog.reread()
	}
	return saved, nil
}

// reread reads the items anew that an older version has read: it may have kept
// what strict clients refuse. The next listing says what is repaired.
func (c *Catalog) reread() {
	for k := range c.Items {
		kept := c.Items[k][:0]
		for _, item := range c.Items[k] {
			traits, ok := wire.Inspect(item.Raw)
			r := itemReader{kind: Kind(k), traits: traits}
			if !ok {
				continue
			}
			if item, _, ok := r.read(item.Raw); ok {
				kept = append(kept, item)
			}
		}
		c.Items[k] = kept
	}
}
