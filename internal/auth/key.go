package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/zalando/go-keyring"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/owned"
)

// Places of the key that the store is encrypted with, as the store's first
// line names them.
const (
	keyGiven   = "given"   // --credentials-key, or a credential of systemd
	keyKeyring = "keyring" // of the operating system
	keyFile    = "file"    // beside the store: it guards backups, and against other users
)

const (
	keySize        = 32
	keyFileName    = "credentials.key"
	systemdKey     = "everline-key"
	keyringService = "everline"
	// keyringLimit bounds each call: they have no context of their own, and a
	// prompt that nobody sees hangs for ever.
	keyringLimit = 3 * time.Second
)

// A keyring is what is used of the operating system's.
type secretService interface {
	Get(service, user string) (string, error)
	Set(service, user, secret string) error
	Delete(service, user string) error
}

type systemKeyring struct{}

func (systemKeyring) Get(service, user string) (string, error) { return keyring.Get(service, user) }
func (systemKeyring) Set(service, user, secret string) error {
	return keyring.Set(service, user, secret)
}
func (systemKeyring) Delete(service, user string) error { return keyring.Delete(service, user) }

// reachableKeyring is the system's keyring; nil where asking for it would start
// a message bus of its own, as the library does on Linux.
func reachableKeyring() secretService {
	if runtime.GOOS != "darwin" && runtime.GOOS != "windows" && os.Getenv("DBUS_SESSION_BUS_ADDRESS") == "" {
		if _, err := os.Stat(filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "bus")); err != nil || os.Getenv("XDG_RUNTIME_DIR") == "" {
			return nil
		}
	}
	return systemKeyring{}
}

// keys finds and makes the key of a store.
type keys struct {
	dir   string
	given string               // path; "" is that of systemd, if there is one
	ring  func() secretService // nil, or gives nil: none is used
}

// keyID tells keys apart without telling anything about them.
func keyID(k []byte) string {
	sum := sha256.Sum256(append([]byte("everline-credentials key id\x00"), k...))
	return hex.EncodeToString(sum[:6])
}

// errNoKey: the place where the key was is there, and the key is not.
var errNoKey = errors.New("the key is not there any more")

// find returns the key that a store names. A fault of kind Unavailable says that
// its place cannot be reached now; errNoKey in its chain, that it is lost.
func (k *keys) find(ctx context.Context, place, id string) ([]byte, *fault.Fault) {
	var all [][]byte
	var err error
	switch place {
	case keyGiven:
		all, err = k.readGiven()
	case keyKeyring:
		all, err = k.readKeyring(ctx, id)
	default:
		all, err = k.readFile()
	}
	if err != nil {
		return nil, lockedStore(place, err)
	}
	for _, one := range all {
		if keyID(one) == id {
			return one, nil
		}
	}
	return nil, lockedStore(place, errNoKey)
}

func lockedStore(place string, err error) *fault.Fault {
	f := &fault.Fault{Kind: fault.Unavailable, Op: "read credentials", Outcome: fault.NotSent, RetryAfter: 30 * time.Second}
	switch place {
	case keyGiven:
		f.Err = fmt.Errorf("the credentials are locked: %w", err)
		f.Remedy = "give the key that they were written with: --credentials-key FILE"
	case keyKeyring:
		f.Err = fmt.Errorf("the credentials are locked, their key is in the keyring: %w", err)
		f.Remedy = "unlock the keyring of the session, or give these logins up with: everline auth rekey --discard"
	default:
		f.Err = fmt.Errorf("the credentials are locked, their key should be beside them: %w", err)
		f.Remedy = "put " + keyFileName + " back, or log in again"
	}
	return f
}

// make makes a key in the first place that works, and tells the place.
func (k *keys) make(ctx context.Context) (one []byte, place string, err error) {
	if k.hasGiven() {
		all, err := k.readGiven()
		if err != nil {
			return nil, "", err
		}
		return all[0], keyGiven, nil
	}
	one = make([]byte, keySize)
	_, _ = rand.Read(one) // never fails
	if k.writeKeyring(ctx, one) {
		return one, keyKeyring, nil
	}
	return one, keyFile, k.writeFile(one)
}

func (k *keys) hasGiven() bool { return k.givenPath() != "" }

func (k *keys) givenPath() string {
	if k.given != "" {
		return k.given
	}
	if dir := os.Getenv("CREDENTIALS_DIRECTORY"); dir != "" {
		if path := filepath.Join(dir, systemdKey); exists(path) {
			return path
		}
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (k *keys) readGiven() ([][]byte, error) {
	path := k.givenPath()
	if path == "" {
		return nil, errors.New("no key is given")
	}
	text, err := readCapped(path)
	if err != nil {
		return nil, err
	}
	if all := parseKeys(text); len(all) > 0 {
		return all, nil
	}
	return nil, &fault.Fault{
		Kind: fault.Invalid, Op: "read the key " + path, Outcome: fault.NotSent,
		Err:    errors.New("it must be 32 bytes, as they are or in base64 or hex"),
		Remedy: "make one with: openssl rand -base64 32",
	}
}

// parseKeys reads one key as it is, or a line for each: the one that is in use
// first, and those that it replaces.
func parseKeys(text []byte) [][]byte {
	if len(text) == keySize {
		return [][]byte{text}
	}
	var all [][]byte
	for line := range strings.Lines(string(text)) {
		if one := parseKey(line); one != nil {
			all = append(all, one)
		}
	}
	return all
}

func readCapped(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 4096))
}

// parseKey reads 32 bytes as text.
func parseKey(line string) []byte {
	line = strings.TrimSpace(line)
	for _, decode := range []func(string) ([]byte, error){base64.StdEncoding.DecodeString, base64.RawURLEncoding.DecodeString, hex.DecodeString} {
		if one, err := decode(line); err == nil && len(one) == keySize {
			return one
		}
	}
	return nil
}

// readFile reads the keys beside the store: while a key is being replaced there
// are two, one a line.
func (k *keys) readFile() ([][]byte, error) {
	path := filepath.Join(k.dir, keyFileName)
	f, err := owned.Open(path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoKey
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, &fault.Fault{
			Kind: fault.Invalid, Op: "read the key " + path, Err: errors.New("other users may read it"),
			Remedy: "chmod 600 " + path,
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return nil, err
	}
	return parseKeys(text), nil
}

// writeFile puts a key before those that are there, so that a store that was
// written with one of them can be read until forget.
func (k *keys) writeFile(one []byte) error {
	all, _ := k.readFile()
	return k.replaceFile(append([][]byte{one}, all...)[:min(len(all)+1, 4)])
}

func (k *keys) replaceFile(all [][]byte) error {
	var text strings.Builder
	for _, one := range all {
		text.WriteString(base64.StdEncoding.EncodeToString(one) + "\n")
	}
	return replaceFile(filepath.Join(k.dir, keyFileName), []byte(text.String()))
}

// forget removes every key of a place but the one that is in use. It is best
// effort: what stays opens nothing that is still there.
func (k *keys) forget(ctx context.Context, oldPlace, oldID string, one []byte, place string) {
	switch {
	case place == keyFile:
		_ = k.replaceFile([][]byte{one})
	case oldPlace == keyFile:
		_ = os.Remove(filepath.Join(k.dir, keyFileName))
	}
	if ring := k.keyring(); ring != nil && oldPlace == keyKeyring && oldID != keyID(one) {
		_, _ = bounded(ctx, func() (string, error) { return "", ring.Delete(keyringService, account(oldID)) })
	}
}

func (k *keys) keyring() secretService {
	if k.ring == nil {
		return nil
	}
	return k.ring()
}

func account(id string) string { return "credentials-" + id }

// writeKeyring tells whether the keyring keeps a key: some say that they do, and
// do not.
func (k *keys) writeKeyring(ctx context.Context, one []byte) bool {
	ring := k.keyring()
	if ring == nil {
		return false
	}
	text, user := base64.StdEncoding.EncodeToString(one), account(keyID(one))
	got, err := bounded(ctx, func() (string, error) {
		if err := ring.Set(keyringService, user, text); err != nil {
			return "", err
		}
		return ring.Get(keyringService, user)
	})
	return err == nil && got == text
}

func (k *keys) readKeyring(ctx context.Context, id string) ([][]byte, error) {
	ring := k.keyring()
	if ring == nil {
		return nil, errors.New("there is no keyring in this session")
	}
	text, err := bounded(ctx, func() (string, error) { return ring.Get(keyringService, account(id)) })
	switch {
	case errors.Is(err, keyring.ErrNotFound):
		return nil, errNoKey
	case err != nil:
		return nil, errors.New("it does not answer, or refuses") // the library's words may hold what it was given
	}
	if one := parseKey(text); one != nil {
		return [][]byte{one}, nil
	}
	return nil, errNoKey
}

var errSlow = errors.New("no answer in time")

// bounded gives a call up after a while. Its goroutine ends with the call, which
// may be never: the library cannot be told to give up.
func bounded(ctx context.Context, call func() (string, error)) (string, error) {
	type result struct {
		text string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		text, err := call()
		done <- result{text, err}
	}()
	limit := time.NewTimer(keyringLimit)
	defer limit.Stop()
	select {
	case r := <-done:
		return r.text, r.err
	case <-limit.C:
		return "", errSlow
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
