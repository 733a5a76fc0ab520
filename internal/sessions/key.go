package sessions

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/everline/everline/internal/owned"
)

const (
	// keyAge is how long new ids are sealed under one key. The key before it
	// still opens ids, so that an id is good for one to two of these.
	keyAge   = 30 * 24 * time.Hour
	keySize  = 32
	keyMagic = "everline-session-keys v1\n"
	keyLimit = 4096 // bytes of the file
)

// keys are the newest key and the one before it.
type keys struct {
	path string
	warn func(text string)

	mu  sync.RWMutex // guards all; while a new key is written nobody seals
	all []key        // newest first, one or two
}

type key struct {
	name [4]byte   // is in each id that it seals
	made time.Time // by wall clock, in whole seconds
	raw  []byte
	aead cipher.AEAD
}

func openKeys(path string, now time.Time, warn func(string)) (*keys, error) {
	k := &keys{path: path, warn: warn}
	text, err := readOwn(path, keyLimit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		if k.all, err = parseKeys(text); err != nil {
			if err := setAside(path, err, warn); err != nil {
				return nil, err
			}
		}
	}
	if len(k.all) == 0 || k.stale(now) {
		if err := k.rotate(now); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// readOwn reads a file that must be the user's own.
func readOwn(path string, limit int64) ([]byte, error) {
	f, err := owned.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return b, err
}

// setAside keeps a file that cannot be used under another name.
func setAside(path string, why error, warn func(string)) error {
	aside := path + ".damaged"
	if err := os.Rename(path, aside); err != nil {
		return err
	}
	warn(fmt.Sprintf("%s cannot be used (%v) and is now %s: clients open new sessions", path, why, aside))
	return nil
}

// oldest is when the oldest id was sealed that a key still opens.
func (k *keys) oldest() time.Time {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.all[len(k.all)-1].made
}

// stale tells whether a new key is due. A key from the future was made before
// the clock was set back.
func (k *keys) stale(now time.Time) bool {
	age := now.Sub(k.all[0].made)
	return age >= keyAge || age < -keyAge
}

func (k *keys) rotate(now time.Time) error {
	raw := make([]byte, keySize)
	_, _ = rand.Read(raw) // never fails
	fresh, err := newKey(now.Truncate(time.Second), raw)
	if err != nil {
		return err
	}
	all := []key{fresh}
	if len(k.all) > 0 && now.Sub(k.all[0].made) < 2*keyAge {
		all = append(all, k.all[0])
	}
	var b bytes.Buffer
	b.WriteString(keyMagic)
	for _, key := range all {
		fmt.Fprintf(&b, "%d %s\n", key.made.Unix(), base64.StdEncoding.EncodeToString(key.raw))
	}
	if err := owned.Replace(k.path, b.Bytes(), 0o600); err != nil {
		return err
	}
	k.all = all
	return nil
}

func parseKeys(text []byte) ([]key, error) {
	rest, ok := strings.CutPrefix(string(text), keyMagic)
	if !ok {
		return nil, errors.New("it is no file of session keys")
	}
	var all []key
	for line := range strings.Lines(rest) {
		made, encoded, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		seconds, err := strconv.ParseInt(made, 10, 64)
		if err != nil {
			return nil, errors.New("a line is damaged")
		}
		raw, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || len(raw) != keySize {
			return nil, errors.New("a key is damaged")
		}
		k, err := newKey(time.Unix(seconds, 0), raw)
		if err != nil {
			return nil, err
		}
		all = append(all, k)
	}
	if len(all) == 0 || len(all) > 2 {
		return nil, fmt.Errorf("it has %d keys", len(all))
	}
	return all, nil
}

// newKey derives what seals ids, so that the same file can serve other seals.
func newKey(made time.Time, raw []byte) (key, error) {
	derived, err := hkdf.Key(sha256.New, raw, nil, "everline session id", keySize)
	if err != nil {
		return key{}, err
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return key{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	sum := sha256.Sum256(derived)
	return key{name: [4]byte(sum[:]), made: made, raw: raw, aead: aead}, err
}

// newest is the key that seals now.
func (k *keys) newest(now time.Time) key {
	k.mu.RLock()
	newest, stale := k.all[0], k.stale(now)
	k.mu.RUnlock()
	if !stale {
		return newest
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stale(now) {
		if err := k.rotate(now); err != nil {
			k.warn("the key of session ids cannot be renewed, and goes on being used: " + err.Error())
		}
	}
	return k.all[0]
}

func (k *keys) open(name [4]byte, raw, bind []byte) (b []byte, known, ok bool) {
	k.mu.RLock()
	all := k.all
	k.mu.RUnlock()
	for _, key := range all {
		if key.name != name {
			continue
		}
		known = true
		if b, err := key.aead.Open(nil, nil, raw, bind); err == nil {
			return b, true, true
		}
	}
	return nil, known, false
}
