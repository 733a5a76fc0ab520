package web

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/everline/everline/internal/owned"
)

const (
	keyName   = "ui.key"
	keySize   = 32
	codeTime  = time.Minute
	codesMost = 16 // at a time
	tokenTime = 12 * time.Hour
	badMost   = 5 // wrong codes in a row, and then there is a pause
	pauseTime = time.Minute
)

var (
	errBadCode = errors.New("the code is wrong, was used, or is older than a minute")
	errPaused  = errors.New("too many wrong codes: wait a minute")
)

// How a token is.
const (
	tokenNone    = "none"
	tokenOK      = "ok"
	tokenExpired = "expired"
)

// keys make one-time codes, and tokens. A token is good for as long as the key in
// the state folder is the same, whichever everline has made it.
type keys struct {
	dir string

	mu     sync.Mutex // guards the rest; held while the key's file is read
	key    []byte     // nil until it is needed
	codes  []code     // oldest first
	bad    int
	paused time.Time // until then no code is taken
}

type code struct {
	text  string
	until time.Time
}

func (k *keys) code(now time.Time) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, err := k.keyLocked(); err != nil { // whoever opens the page hears of it now
		return "", err
	}
	if len(k.codes) == codesMost {
		k.codes = k.codes[1:]
	}
	c := code{rand.Text(), now.Add(codeTime)}
	k.codes = append(k.codes, c)
	return c.text, nil
}

// redeem takes a code in for a token.
func (k *keys) redeem(text string, now time.Time) (token string, until time.Time, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now.Before(k.paused) {
		return "", until, errPaused
	}
	for i, c := range k.codes {
		if now.Before(c.until) && subtle.ConstantTimeCompare([]byte(c.text), []byte(text)) == 1 {
			k.codes = append(k.codes[:i:i], k.codes[i+1:]...)
			k.bad = 0
			return k.tokenLocked(now)
		}
	}
	if k.bad++; k.bad >= badMost {
		k.bad, k.paused = 0, now.Add(pauseTime)
	}
	return "", until, errBadCode
}

func (k *keys) token(now time.Time) (token string, until time.Time, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.tokenLocked(now)
}

const (
	idSize   = 8
	headSize = idSize + 8
)

func (k *keys) tokenLocked(now time.Time) (string, time.Time, error) {
	key, err := k.keyLocked()
	if err != nil {
		return "", time.Time{}, err
	}
	until := now.Add(tokenTime).Truncate(time.Second)
	head := make([]byte, idSize, headSize+sha256.Size)
	_, _ = rand.Read(head) // it never fails
	head = binary.BigEndian.AppendUint64(head, uint64(until.Unix()))
	return base64.RawURLEncoding.EncodeToString(append(head, sign(key, head)...)), until, nil
}

func sign(key, head []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(head)
	return h.Sum(nil)
}

// state tells how a token is.
func (k *keys) state(token string, now time.Time) string {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) != headSize+sha256.Size {
		return tokenNone
	}
	k.mu.Lock()
	key, err := k.keyLocked()
	k.mu.Unlock()
	if err != nil || !hmac.Equal(sign(key, raw[:headSize]), raw[headSize:]) {
		return tokenNone
	}
	if until := time.Unix(int64(binary.BigEndian.Uint64(raw[idSize:])), 0); !now.Before(until) {
		return tokenExpired
	}
	return tokenOK
}

// keyLocked is the key of the state folder, which is made where there is none.
// What is no key of ours is replaced.
func (k *keys) keyLocked() ([]byte, error) {
	if k.key != nil {
		return k.key, nil
	}
	path := filepath.Join(k.dir, keyName)
	if err := owned.File(path); err != nil {
		return nil, err
	}
	key, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if len(key) != keySize {
		return k.newLocked()
	}
	k.key = key
	return key, nil
}

func (k *keys) newLocked() ([]byte, error) {
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // it never fails
	if err := owned.Write(filepath.Join(k.dir, keyName), key, 0o600); err != nil {
		return nil, err
	}
	k.key = key
	return key, nil
}

// revoke makes every token and code worthless.
func (k *keys) revoke() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.codes = nil
	_, err := k.newLocked()
	return err
}
