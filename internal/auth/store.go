package auth

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/owned"
	"github.com/everline/everline/internal/statelock"
)

const (
	storeFile  = "credentials"
	storeLock  = "credentials.lock"
	storeMagic = "everline-credentials v1"
	storeMax   = 4 << 20
	lockedFor  = 10 * time.Second
	opRead     = "read credentials"
	opWrite    = "write credentials"
)

// A store keeps credentials in a folder that is the user's alone, encrypted.
// Every change is made under the lock of the file, to what the file holds at
// that moment, so that any number of processes can share it.
type store struct {
	dir  string // "": nothing is kept beyond this process
	keys *keys
	warn func(text string)

	turn chan struct{}        // held, and given up on ctx, by whoever reads or writes the file
	seen atomic.Pointer[data] // as last read or written; nil before that. It is never changed.

	// The rest belongs to whoever has the turn.
	info    fs.FileInfo // of the file that seen came from; nil if there was none
	key     []byte
	keyAt   string
	checked bool // the folder is ours
	// locked is why the key could not be had, and lockedTill until when that is
	// believed: each question to a keyring may take seconds.
	locked     *fault.Fault
	lockedTill time.Time
}

func newStore(dir string, k *keys, warn func(string)) *store {
	s := &store{dir: dir, keys: k, warn: warn, turn: make(chan struct{}, 1)}
	if dir == "" {
		s.seen.Store(newData())
	}
	return s
}

// exists tells whether anything is kept.
func (s *store) exists() bool {
	_, err := os.Stat(s.path())
	return s.dir != "" && err == nil
}

func (s *store) path() string { return filepath.Join(s.dir, storeFile) }

// read returns what is stored now. The file is read only if it is another one
// than before.
func (s *store) read(ctx context.Context) (*data, *fault.Fault) {
	if s.dir == "" {
		return s.seen.Load(), nil
	}
	release, f := s.enter(ctx)
	if f != nil {
		return nil, f
	}
	defer release()
	if d := s.seen.Load(); d != nil && s.unchanged() {
		return d, nil
	}
	unlock, err := lockFile(ctx, filepath.Join(s.dir, storeLock))
	if err != nil {
		return nil, storeFault(opRead, err)
	}
	defer unlock()
	_, f = s.load(ctx)
	return s.seen.Load(), f
}

// update changes what is stored and returns the result. The change gets a copy
// of its own, with the serial that its records are to have. If the change
// returns an error nothing is written.
func (s *store) update(ctx context.Context, change func(*data) error) (*data, *fault.Fault) {
	release, f := s.enter(ctx)
	if f != nil {
		return nil, f
	}
	defer release()
	raw := s.memory()
	if s.dir != "" {
		unlock, err := lockFile(ctx, filepath.Join(s.dir, storeLock))
		if err != nil {
			return nil, storeFault(opWrite, err)
		}
		defer unlock()
		if raw, f = s.load(ctx); f != nil {
			return nil, f
		}
	}
	next, err := decodeData(raw)
	if err != nil {
		return nil, storeFault(opWrite, err)
	}
	next.Serial++
	if err := change(next); err != nil {
		return nil, fault.From(opWrite, err)
	}
	if raw, err = json.Marshal(next); err == nil && s.dir != "" {
		err = s.write(ctx, raw)
	}
	if err != nil {
		return nil, storeFault(opWrite, err)
	}
	s.seen.Store(next)
	return next, nil
}

// memory is what is seen, as JSON.
func (s *store) memory() []byte {
	raw, _ := json.Marshal(s.seen.Load()) // made of strings, numbers and times
	return raw
}

func decodeData(raw []byte) (*data, error) {
	d := &data{}
	if err := json.Unmarshal(raw, d); err != nil {
		return nil, errors.New("it is no JSON of ours")
	}
	d.fill()
	return d, nil
}

func storeFault(op string, err error) *fault.Fault {
	if f, ok := fault.As(err); ok {
		return f
	}
	return &fault.Fault{Kind: fault.Unavailable, Op: op, Outcome: fault.NotSent, Err: err, RetryAfter: 30 * time.Second}
}

// enter waits for the turn, and makes sure of the folder.
func (s *store) enter(ctx context.Context) (release func(), f *fault.Fault) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fault.From(opRead, context.Cause(ctx))
	}
	if s.dir != "" && !s.checked {
		if err := owned.MakeFolder(s.dir); err != nil {
			<-s.turn
			f := *fault.From(opRead, err)
			f.Kind, f.RetryAfter = fault.Unavailable, lockedFor // it is good again without another configuration
			return nil, &f
		}
		s.checked = true
		s.tidy()
	}
	return func() { <-s.turn }, nil
}

// tidy removes what processes that were killed while they wrote have left.
func (s *store) tidy() {
	left, _ := filepath.Glob(filepath.Join(s.dir, "."+storeFile+"*-*")) // the pattern is good
	for _, path := range left {
		if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()) > time.Hour {
			_ = os.Remove(path) // the next one tries again
		}
	}
}

// unchanged tells whether the file is the one that was last seen.
func (s *store) unchanged() bool {
	info, err := os.Stat(s.path())
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) && s.info == nil
	}
	return s.info != nil && os.SameFile(info, s.info) && info.ModTime().Equal(s.info.ModTime()) && info.Size() == s.info.Size()
}

// load reads the file under its lock. What cannot be read as ours is moved
// aside and taken for empty; what only lacks its key stays, and is a fault.
func (s *store) load(ctx context.Context) ([]byte, *fault.Fault) {
	file, info, err := readStore(s.path())
	if errors.Is(err, fs.ErrNotExist) {
		d := newData()
		s.info, s.key = nil, nil // a key that nothing depends on may be gone with it
		s.seen.Store(d)
		return s.memory(), nil
	}
	var raw []byte
	if err == nil {
		raw, err = s.decrypt(ctx, file)
	}
	var d *data
	if err == nil {
		d, err = decodeData(raw)
	}
	switch {
	case errors.Is(err, errCorrupt):
		return s.moveAside(err)
	case err != nil && raw != nil:
		return s.moveAside(err)
	case err != nil:
		return nil, storeFault(opRead, err)
	}
	s.info = info
	s.seen.Store(d)
	return raw, nil
}

func readStore(path string) ([]byte, fs.FileInfo, error) {
	f, err := owned.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	file, err := io.ReadAll(io.LimitReader(f, storeMax+1))
	if err == nil && len(file) > storeMax {
		err = corrupt("it is larger than 4 MiB")
	}
	return file, info, err
}

// errCorrupt: nobody will ever read this file again.
var errCorrupt = errors.New("the credentials cannot be read")

func corrupt(why string) error { return fmt.Errorf("%w: %s", errCorrupt, why) }

// moveAside keeps a file that cannot be read under another name.
func (s *store) moveAside(why error) ([]byte, *fault.Fault) {
	aside := s.path() + ".unreadable-" + time.Now().UTC().Format("20060102-150405.000")
	if err := os.Rename(s.path(), aside); err != nil {
		return nil, storeFault(opRead, err)
	}
	s.warn(fmt.Sprintf("%v; the file is now %s, and servers have to be logged in to again", why, aside))
	s.info = nil
	s.seen.Store(newData())
	return s.memory(), nil
}

// decrypt opens a file: a line of text that names the key, and the rest.
func (s *store) decrypt(ctx context.Context, file []byte) ([]byte, error) {
	head, sealed, _ := bytes.Cut(file, []byte("\n"))
	place, id, ok := keyNamed(head)
	if !ok {
		return nil, corrupt("its first line is not everline's")
	}
	if s.key == nil || keyID(s.key) != id {
		if time.Now().Before(s.lockedTill) {
			return nil, s.locked
		}
		one, f := s.keys.find(ctx, place, id)
		if f != nil && place == keyFile && errors.Is(f, errNoKey) {
			return nil, corrupt("its key, " + keyFileName + ", is lost")
		}
		if f != nil {
			s.locked, s.lockedTill = f, time.Now().Add(lockedFor)
			return nil, f
		}
		s.key, s.keyAt = one, place
	}
	aead, err := newAEAD(s.key)
	if err != nil {
		return nil, err
	}
	if len(sealed) < aead.NonceSize() {
		return nil, corrupt("it is cut off")
	}
	raw, err := aead.Open(nil, sealed[:aead.NonceSize()], sealed[aead.NonceSize():], s.bound(head))
	if err != nil {
		return nil, corrupt("it was changed, or it was written for another folder")
	}
	return raw, nil
}

// sealer seals and opens what stands in another file of the folder, with the key
// as it is now; open returns nil for what is none of ours. Both are nil before
// there is a key. They wait for nothing.
func (s *store) sealer(ctx context.Context, name string) (seal, open func([]byte) []byte) {
	release, f := s.enter(ctx)
	if f != nil {
		return nil, nil
	}
	defer release()
	if s.key == nil {
		return nil, nil
	}
	aead, err := newAEAD(s.key)
	if err != nil {
		return nil, nil
	}
	bound := s.bound([]byte(name))
	seal = func(raw []byte) []byte {
		nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(raw)+aead.Overhead())
		_, _ = rand.Read(nonce) // never fails
		return aead.Seal(nonce, nonce, raw, bound)
	}
	open = func(sealed []byte) []byte {
		if len(sealed) < aead.NonceSize() {
			return nil
		}
		raw, err := aead.Open(nil, sealed[:aead.NonceSize()], sealed[aead.NonceSize():], bound)
		if err != nil {
			return nil
		}
		return raw
	}
	return seal, open
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// bound is what a file is bound to beside its key: its first line and its path.
func (s *store) bound(head []byte) []byte {
	dir, err := filepath.EvalSymlinks(s.dir)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		dir = s.dir
	}
	return append(append(bytes.Clone(head), 0), filepath.Join(dir, storeFile)...)
}

func (s *store) write(ctx context.Context, raw []byte) error {
	if s.key == nil {
		one, place, err := s.keys.make(ctx)
		if err != nil {
			return err
		}
		s.key, s.keyAt = one, place
	}
	aead, err := newAEAD(s.key)
	if err != nil {
		return err
	}
	head := []byte(storeMagic + " " + s.keyAt + " " + keyID(s.key))
	nonce := make([]byte, aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	file := append(bytes.Clone(head), '\n')
	file = aead.Seal(append(file, nonce...), nonce, raw, s.bound(head))
	if len(file) > storeMax {
		return errors.New("they are more than 4 MiB")
	}
	if err := replaceFile(s.path(), file); err != nil {
		return err
	}
	s.info, err = os.Stat(s.path())
	return err
}

// rekey writes everything anew with another key. discard moves aside what is
// locked by a key that is not to be had; else that is a fault.
func (s *store) rekey(ctx context.Context, discard bool) *fault.Fault {
	if s.dir == "" {
		return nil
	}
	release, f := s.enter(ctx)
	if f != nil {
		return f
	}
	defer release()
	unlock, err := lockFile(ctx, filepath.Join(s.dir, storeLock))
	if err != nil {
		return storeFault(opWrite, err)
	}
	defer unlock()
	raw, f := s.load(ctx)
	if f != nil && discard {
		raw, f = s.moveAside(f)
	}
	if f != nil {
		return f
	}
	oldKey, oldAt := s.key, s.keyAt
	s.key = nil
	if err := s.write(ctx, raw); err != nil {
		s.key, s.keyAt = oldKey, oldAt
		return storeFault(opWrite, err)
	}
	if oldKey != nil {
		s.keys.forget(ctx, oldAt, keyID(oldKey), s.key, s.keyAt)
	}
	return nil
}

// keyPlace tells where the key is; "" before there is one. The key itself need
// not be there.
func (s *store) keyPlace(ctx context.Context) string {
	release, f := s.enter(ctx)
	if f != nil {
		return ""
	}
	defer release()
	place := s.keyAt
	if place == "" {
		place = s.placeNamed()
	}
	switch place {
	case keyGiven:
		return strings.TrimSuffix("given: "+s.keys.givenPath(), ": ")
	case keyKeyring:
		return "keyring"
	case keyFile:
		return "file: " + filepath.Join(s.dir, keyFileName) + ", which guards backups, and against other users, alone"
	default:
		return ""
	}
}

// placeNamed is where the file says that its key is; "" if there is no such file.
func (s *store) placeNamed() string {
	file, _, err := readStore(s.path())
	if err != nil {
		return ""
	}
	head, _, _ := bytes.Cut(file, []byte("\n"))
	place, _, _ := keyNamed(head)
	return place
}

// keyNamed is what the first line of a file says of its key.
func keyNamed(head []byte) (place, id string, ok bool) {
	rest, ours := strings.CutPrefix(string(head), storeMagic)
	words := strings.Fields(rest)
	if !ours || len(words) != 2 {
		return "", "", false
	}
	return words[0], words[1], true
}

// replaceFile writes a file of ours so that it is whole at every moment.
func replaceFile(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-") // with 0600
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // nobody will look for it
		return err
	}
	if dir, err := os.Open(filepath.Dir(path)); err == nil {
		_ = dir.Sync() // not possible everywhere
		_ = dir.Close()
	}
	return nil
}

// lockFile waits for the lock of a file, within ctx. Another process may hold it
// for as long as a request to a token endpoint takes.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := lockedFile(ctx, path)
	return func() { _ = f.Close() }, err // which gives it back
}

// lockedFile is lockFile, and the lock is given back by closing the file.
func lockedFile(ctx context.Context, path string) (*os.File, error) {
	f, err := owned.Open(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for wait := time.Millisecond; ; wait = min(2*wait, 40*time.Millisecond) {
		err = statelock.Try(f)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, statelock.ErrHeld) {
			break
		}
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
			continue
		case <-ctx.Done():
			pause.Stop()
			err = context.Cause(ctx)
		}
		break
	}
	_ = f.Close() // nothing was written
	return nil, err
}
