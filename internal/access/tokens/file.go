package tokens

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/owned"
	"github.com/everline/everline/internal/statelock"
)

const (
	fileName = "clients"
	usedName = "clients.used"
	lockName = "clients.lock"

	maxFile   = 4 << 20
	maxTokens = 4096
	maxName   = 128
	lockWait  = 5 * time.Second
	lockLook  = 20 * time.Millisecond
)

// content is the file.
type content struct {
	Version int     `json:"version"`
	Tokens  []Token `json:"tokens"`
}

// read is what is in a folder's file; nothing where there is none.
func read(dir string) ([]Token, error) {
	var c content
	err := readJSON(filepath.Join(dir, fileName), &c)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && c.Version != 1 {
		err = fmt.Errorf("its version is %d, and this everline knows 1", c.Version)
	}
	for _, t := range c.Tokens {
		if sum, bad := hex.DecodeString(t.SHA256); err == nil && (bad != nil || len(sum) != 32 || len(t.ID) != idLength || t.Name == "") {
			err = fmt.Errorf("the token %q is damaged", t.Name)
		}
	}
	if err != nil {
		return nil, &fault.Fault{
			Kind: fault.Invalid, Op: "read " + filepath.Join(dir, fileName), Outcome: fault.NotSent, Err: err,
			Remedy: "repair the file, or remove it and make the tokens anew: everline token create NAME",
		}
	}
	return c.Tokens, nil
}

func readJSON(path string, to any) error {
	f, err := owned.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("it is larger than %d bytes", maxFile)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(b, to)
}

func writeJSON(path string, from any) error {
	b, err := json.MarshalIndent(from, "", "  ")
	if err != nil {
		return err
	}
	return owned.Replace(path, append(b, '\n'), 0o600)
}

// change changes the file of a folder, which is made where needed, under its lock.
func change(dir string, fn func([]Token) ([]Token, error)) error {
	if err := owned.MakeFolder(dir); err != nil {
		return err
	}
	lock, err := owned.Open(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return unable(err)
	}
	defer lock.Close() // which gives the lock back
	for end := time.Now().Add(lockWait); ; time.Sleep(lockLook) {
		if err = statelock.Try(lock); !errors.Is(err, statelock.ErrHeld) || time.Now().After(end) {
			break
		}
	}
	if err != nil {
		return unable(err)
	}
	all, err := read(dir)
	if err != nil {
		return err
	}
	if all, err = fn(all); err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(dir, fileName), content{1, all}); err != nil {
		return unable(err)
	}
	return nil
}

func unable(err error) error {
	return &fault.Fault{
		Kind: fault.Internal, Op: "keep the tokens", Outcome: fault.NotSent, Err: err,
		Remedy: "make the state folder writable, or name another one with --state-dir",
	}
}

// Create makes a token with a name that no other one has, and returns it: it is
// kept nowhere. policy may be "", and expires zero.
func Create(dir, name, policy string, expires time.Time) (token string, t Token, err error) {
	if name == "" || len(name) > maxName || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", t, refused("give it a name of letters, digits and signs, like ci", "%q is no name of a token", name)
	}
	err = change(dir, func(all []Token) ([]Token, error) {
		if slices.ContainsFunc(all, func(o Token) bool { return o.Name == name }) {
			return nil, &fault.Fault{
				Kind: fault.Conflict, Op: "make a token", Outcome: fault.NotSent, Err: fmt.Errorf("there is a token %q", name),
				Remedy: "choose another name, or: everline token rotate " + name,
			}
		}
		if len(all) >= maxTokens {
			return nil, refused("revoke those that nobody uses: everline token ls", "there are %d tokens already", len(all))
		}
		t = Token{ID: newID(), Name: name, Policy: policy, Created: now(), Expires: expires.Round(0)}
		token, t.SHA256 = mint(t.ID)
		return append(all, t), nil
	})
	return token, t, err
}

// List is every token, in the order in which they were made.
func List(dir string) ([]Token, error) {
	all, err := read(dir)
	used := map[string]int64{}
	if bad := readJSON(filepath.Join(dir, usedName), &used); bad == nil { // else nobody can tell
		for i, t := range all {
			if minute := used[t.ID]; minute > 0 {
				all[i].LastUsed = time.Unix(minute*60, 0)
			}
		}
	}
	return all, err
}

// Revoke ends a token, named by its name or id, for good.
func Revoke(dir, which string) (t Token, err error) {
	err = change(dir, func(all []Token) ([]Token, error) {
		i, err := find(all, which)
		if err != nil {
			return nil, err
		}
		t = all[i]
		return slices.Delete(all, i, i+1), nil
	})
	return t, err
}

// Rotate makes a new token in the place of one that is named by its name or id. The
// old one is good for Overlap, or for as long as it would have been.
func Rotate(dir, which string) (token string, t Token, err error) {
	err = change(dir, func(all []Token) ([]Token, error) {
		i, err := find(all, which)
		if err != nil {
			return nil, err
		}
		old := &all[i]
		old.Before, old.BeforeUntil = old.SHA256, now().Add(Overlap)
		token, old.SHA256 = mint(old.ID)
		t = *old
		return all, nil
	})
	return token, t, err
}

func find(all []Token, which string) (int, error) {
	i := slices.IndexFunc(all, func(t Token) bool { return t.Name == which })
	if i < 0 {
		i = slices.IndexFunc(all, func(t Token) bool { return t.ID == which })
	}
	if i < 0 {
		return i, &fault.Fault{
			Kind: fault.NotFound, Op: "find a token", Outcome: fault.NotSent, Err: fmt.Errorf("there is no token %q", which), Remedy: "everline token ls",
		}
	}
	return i, nil
}

func now() time.Time { return time.Now().Round(0).Truncate(time.Second) }

func refused(remedy, format string, args ...any) error {
	return &fault.Fault{Kind: fault.Invalid, Op: "make a token", Outcome: fault.NotSent, Err: fmt.Errorf(format, args...), Remedy: remedy}
}
