package auth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zalando/go-keyring"
	"go.uber.org/goleak"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcptest/authserver"
)

// children are what the test binary does when it is started as another process.
var children = map[string]func(args []string) error{"count": countInStore, "call": callForAWhile, "print": printToken}

func TestMain(m *testing.M) {
	if name := os.Getenv("AUTH_TEST_CHILD"); name != "" {
		if err := children[name](os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// child is another process that does what children has under this name.
func child(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), "AUTH_TEST_CHILD="+name)
	cmd.Stderr = os.Stderr
	return cmd
}

func stateDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// testStore is a store whose key is in a file, and what it warned of.
func testStore(t *testing.T, dir string) (*store, *[]string) {
	t.Helper()
	var warned []string
	return newStore(dir, &keys{dir: dir}, func(text string) { warned = append(warned, text) }), &warned
}

var testKey = key{Resource: "https://mcp.test/mcp", Issuer: "https://as.test"}

func putToken(t *testing.T, s *store, refresh string) {
	t.Helper()
	_, f := s.update(t.Context(), func(d *data) error {
		d.put(&record{Key: testKey, Access: "access-secret", Refresh: refresh})
		return nil
	})
	if f != nil {
		t.Fatal(f)
	}
}

func getToken(t *testing.T, s *store) *record {
	t.Helper()
	d, f := s.read(t.Context())
	if f != nil {
		t.Fatal(f)
	}
	return d.record(testKey)
}

func TestStoreIsEncryptedAndPrivate(t *testing.T) {
	dir := stateDir(t)
	s, _ := testStore(t, dir)
	putToken(t, s, "refresh-secret")
	for name, mode := range map[string]os.FileMode{storeFile: 0o600, storeLock: 0o600, keyFileName: 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	file, err := os.ReadFile(s.path())
	if err != nil || bytes.Contains(file, []byte("secret")) || bytes.Contains(file, []byte("mcp.test")) {
		t.Errorf("the file tells something: %q, %v", file, err)
	}
	again, _ := testStore(t, dir)
	if r := getToken(t, again); r == nil || r.Refresh != "refresh-secret" || r.Serial != 1 {
		t.Errorf("another process reads %+v", r)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestStoreSeesWhatOthersWrite(t *testing.T) {
	dir := stateDir(t)
	one, _ := testStore(t, dir)
	two, _ := testStore(t, dir)
	putToken(t, one, "first")
	if r := getToken(t, two); r.Refresh != "first" {
		t.Fatalf("%+v", r)
	}
	putToken(t, two, "second")
	if r := getToken(t, one); r.Refresh != "second" || r.Serial != 2 {
		t.Errorf("%+v", r)
	}
}

func TestStoreMovesAsideWhatCannotBeRead(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, s *store){
		"one bit": func(t *testing.T, s *store) { spoil(t, s, func(b []byte) []byte { b[len(b)-1] ^= 1; return b }) },
		"cut off": func(t *testing.T, s *store) { spoil(t, s, func(b []byte) []byte { return b[:60] }) },
		"empty":   func(t *testing.T, s *store) { spoil(t, s, func([]byte) []byte { return nil }) },
		"another": func(t *testing.T, s *store) { spoil(t, s, func([]byte) []byte { return []byte("{}\n{}") }) },
		"huge":    func(t *testing.T, s *store) { spoil(t, s, func([]byte) []byte { return make([]byte, storeMax+2) }) },
		"key lost": func(t *testing.T, s *store) {
			if err := os.Remove(filepath.Join(s.dir, keyFileName)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := stateDir(t)
			first, _ := testStore(t, dir)
			putToken(t, first, "old")
			spoil(t, first)
			before, _ := os.ReadFile(first.path())
			s, warned := testStore(t, dir)
			if r := getToken(t, s); r != nil {
				t.Errorf("read %+v", r)
			}
			aside, _ := filepath.Glob(filepath.Join(dir, storeFile+".unreadable-*"))
			if len(aside) != 1 || len(*warned) != 1 || !strings.Contains((*warned)[0], aside[0]) {
				t.Fatalf("moved to %v, warned %q", aside, *warned)
			}
			if after, _ := os.ReadFile(aside[0]); !bytes.Equal(before, after) {
				t.Error("what was moved is not what was there")
			}
			putToken(t, s, "new")
			third, _ := testStore(t, dir)
			if r := getToken(t, third); r == nil || r.Refresh != "new" {
				t.Errorf("after a login: %+v", r)
			}
		})
	}
}

func spoil(t *testing.T, s *store, change func([]byte) []byte) {
	t.Helper()
	file, err := os.ReadFile(s.path())
	if err == nil {
		err = os.WriteFile(s.path(), change(file), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A copy of the folder is of no use elsewhere.
func TestStoreIsBoundToItsPath(t *testing.T) {
	dir := stateDir(t)
	s, _ := testStore(t, dir)
	putToken(t, s, "old")
	copied := stateDir(t)
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	_ = os.Chmod(filepath.Join(copied, keyFileName), 0o600)
	other, warned := testStore(t, copied)
	if r := getToken(t, other); r != nil || len(*warned) != 1 {
		t.Errorf("read %+v, warned %q", r, *warned)
	}
}

func TestStoreRefusesFoldersOfOthers(t *testing.T) {
	dir := stateDir(t)
	s, _ := testStore(t, dir)
	putToken(t, s, "old")
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	other, _ := testStore(t, dir)
	if _, f := other.read(t.Context()); f == nil || f.Kind != fault.Unavailable || !strings.Contains(f.Remedy, "chmod") {
		t.Errorf("%+v", f)
	}
	_ = os.Chmod(dir, 0o700)
	_ = os.Chmod(filepath.Join(dir, keyFileName), 0o640)
	if _, f := other.read(t.Context()); f == nil || !strings.Contains(f.Error(), "other users may read it") {
		t.Errorf("%+v", f)
	}
}

// Two processes that change the store at the same time lose nothing.
func TestStoreTwoProcesses(t *testing.T) {
	dir := stateDir(t)
	var all []*exec.Cmd
	for range 3 {
		cmd := child(t, "count", dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	for _, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	s, warned := testStore(t, dir)
	d, f := s.read(t.Context())
	if f != nil || d.Serial != 60 || len(d.Asked["n"]) != 60 || len(*warned) > 0 {
		t.Errorf("serial %d, %d entries, warned %q, %v", d.Serial, len(d.Asked["n"]), *warned, f)
	}
}

// A process that is killed while it writes leaves a file that can be read, and
// nothing behind for long.
func TestStoreSurvivesKill(t *testing.T) {
	dir := stateDir(t)
	s, warned := testStore(t, dir)
	last := uint64(0)
	for range 20 {
		cmd := child(t, "count", dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for seen, began := last, time.Now(); seen == last && time.Since(began) < 10*time.Second; {
			d, f := s.read(t.Context())
			if f != nil {
				t.Fatal(f)
			}
			seen = d.Serial
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		d, f := s.read(t.Context())
		if f != nil || d.Serial < last || len(d.Asked["n"]) != int(d.Serial) || len(*warned) > 0 {
			t.Fatalf("serial %d after %d, %v, %q", d.Serial, last, f, *warned)
		}
		last = d.Serial
	}
	old := filepath.Join(dir, "."+storeFile+"-123")
	if err := os.WriteFile(old, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_ = os.Chtimes(old, time.Time{}, time.Now().Add(-2*time.Hour))
	again, _ := testStore(t, dir)
	getToken(t, again)
	if exists(old) {
		t.Error("what a killed process left is still there")
	}
}

func countInStore(args []string) error {
	s := newStore(args[0], &keys{dir: args[0]}, func(string) {})
	for range 20 {
		_, f := s.update(context.Background(), func(d *data) error {
			d.Asked["n"] = append(d.Asked["n"], "x")
			return nil
		})
		if f != nil {
			return f
		}
	}
	return nil
}

// fakeKeyring is one in memory, with faults.
type fakeKeyring struct {
	kept map[string]string
	fail error
	hang bool
	mute bool // Set says that all is well, and keeps nothing
}

func (k *fakeKeyring) Get(_, user string) (string, error) {
	if k.hang {
		time.Sleep(time.Hour)
	}
	if k.fail != nil || k.mute {
		return "", k.fail
	}
	if text, ok := k.kept[user]; ok {
		return text, nil
	}
	return "", keyring.ErrNotFound
}

func (k *fakeKeyring) Set(_, user, secret string) error {
	if k.hang {
		time.Sleep(time.Hour)
	}
	if k.fail == nil && !k.mute {
		k.kept[user] = secret
	}
	return k.fail
}

func (k *fakeKeyring) Delete(_, user string) error {
	delete(k.kept, user)
	return nil
}

func ringStore(t *testing.T, dir string, ring *fakeKeyring) *store {
	t.Helper()
	return newStore(dir, &keys{dir: dir, ring: func() secretService { return ring }}, func(text string) { t.Error(text) })
}

// TestFaultX21Keyring has each way in which a keyring fails: what is there is
// neither lost nor taken for logged out, and a new key finds another place.
func TestFaultX21Keyring(t *testing.T) {
	t.Run("works", func(t *testing.T) {
		dir, ring := stateDir(t), &fakeKeyring{kept: map[string]string{}}
		putToken(t, ringStore(t, dir, ring), "x")
		if exists(filepath.Join(dir, keyFileName)) || len(ring.kept) != 1 {
			t.Error("the key is not in the keyring alone")
		}
		s := ringStore(t, dir, ring)
		if r := getToken(t, s); r == nil || s.keyPlace(t.Context()) != "keyring" {
			t.Errorf("%+v, %s", r, s.keyPlace(t.Context()))
		}
	})
	for name, ring := range map[string]*fakeKeyring{
		"no bus":           {fail: errors.New("exec: dbus-launch")},
		"keeps nothing":    {mute: true},
		"never comes back": {hang: true, kept: map[string]string{}},
	} {
		t.Run("at first "+name, func(t *testing.T) {
			dir := stateDir(t)
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				putToken(t, ringStore(t, dir, ring), "x")
				if took := time.Since(began); took > keyringLimit {
					t.Errorf("it took %v", took)
				}
				s := ringStore(t, dir, ring)
				if r := getToken(t, s); r == nil || !strings.HasPrefix(s.keyPlace(t.Context()), "file: ") {
					t.Errorf("%+v, %s", r, s.keyPlace(t.Context()))
				}
				time.Sleep(2 * time.Hour) // the calls that hang end
			})
		})
	}
	for name, gone := range map[string]*fakeKeyring{
		"locked": {fail: errors.New("locked")}, "hangs": {hang: true}, "lost it": {kept: map[string]string{}}, "none": nil,
	} {
		t.Run("later "+name, func(t *testing.T) {
			dir, ring := stateDir(t), &fakeKeyring{kept: map[string]string{}}
			putToken(t, ringStore(t, dir, ring), "kept")
			synctest.Test(t, func(t *testing.T) {
				now := gone
				k := &keys{dir: dir, ring: func() secretService {
					if now == nil {
						return nil
					}
					return now
				}}
				s := newStore(dir, k, func(text string) { t.Error(text) })
				for range 3 {
					_, f := s.read(t.Context())
					if f == nil || f.Kind != fault.Unavailable || f.RetryAfter == 0 || !strings.Contains(f.Error(), "locked") || f.Remedy == "" {
						t.Fatalf("%+v", f)
					}
				}
				if _, f := s.update(t.Context(), func(*data) error { return nil }); f == nil {
					t.Error("what is locked was overwritten")
				}
				now = ring
				time.Sleep(lockedFor)
				if r := getToken(t, s); r == nil || r.Refresh != "kept" {
					t.Errorf("after unlocking: %+v", r)
				}
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

func TestGivenKey(t *testing.T) {
	dir := stateDir(t)
	path := filepath.Join(t.TempDir(), "k")
	for content, good := range map[string]bool{strings.Repeat("k", 32): true, strings.Repeat("6b", 32) + "\n": true, "short": false, "": false} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		s := newStore(stateDir(t), &keys{dir: dir, given: path}, func(string) {})
		_, f := s.update(t.Context(), func(*data) error { return nil })
		if (f == nil) != good || f != nil && f.Kind != fault.Invalid {
			t.Errorf("%q: %v", content, f)
		}
	}
	lines := func(all ...string) {
		text := ""
		for _, one := range all {
			text += strings.Repeat(one, 32) + "\n"
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rotated := stateDir(t)
	given := func() *store { return newStore(rotated, &keys{dir: rotated, given: path}, func(string) {}) }
	lines("6b")
	putToken(t, given(), "kept")
	lines("6c", "6b") // the new one goes first, until everything is written with it
	if f := given().rekey(t.Context(), false); f != nil {
		t.Fatal(f)
	}
	lines("6c")
	if r := getToken(t, given()); r == nil || r.Refresh != "kept" {
		t.Errorf("after a change of the given key: %+v", r)
	}
	t.Setenv("CREDENTIALS_DIRECTORY", filepath.Dir(path))
	_ = os.WriteFile(filepath.Join(filepath.Dir(path), systemdKey), bytes.Repeat([]byte{7}, 32), 0o600)
	s, _ := testStore(t, dir)
	putToken(t, s, "x")
	if place := s.keyPlace(t.Context()); !strings.HasSuffix(place, systemdKey) {
		t.Error(place)
	}
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	other, _ := testStore(t, dir)
	if _, f := other.read(t.Context()); f == nil || f.Kind != fault.Unavailable || !strings.Contains(f.Remedy, "--credentials-key") {
		t.Errorf("without the key: %+v", f)
	}
}

func TestRekey(t *testing.T) {
	dir, ring := stateDir(t), &fakeKeyring{kept: map[string]string{}}
	s := ringStore(t, dir, ring)
	putToken(t, s, "x")
	id := keyID(s.key)
	if f := s.rekey(t.Context(), false); f != nil {
		t.Fatal(f)
	}
	if keyID(s.key) == id || len(ring.kept) != 1 {
		t.Errorf("the same key, or %d of them", len(ring.kept))
	}
	if r := getToken(t, ringStore(t, dir, ring)); r == nil || r.Refresh != "x" {
		t.Errorf("%+v", r)
	}
	file := &keys{dir: dir} // the keyring is given up: what is locked is moved aside
	var warned []string
	locked := newStore(dir, file, func(text string) { warned = append(warned, text) })
	if f := locked.rekey(t.Context(), false); f == nil || f.Kind != fault.Unavailable || !strings.Contains(f.Remedy, "--discard") {
		t.Fatalf("what is locked is given up unasked: %+v", f)
	}
	if f := locked.rekey(t.Context(), true); f != nil || len(warned) != 1 {
		t.Fatal(f, warned)
	}
	putToken(t, locked, "y")
	if f := locked.rekey(t.Context(), false); f != nil {
		t.Fatal(f)
	}
	if all, err := file.readFile(); err != nil || len(all) != 1 {
		t.Errorf("%d keys, %v", len(all), err)
	}
	if r := getToken(t, newStore(dir, file, func(string) {})); r == nil || r.Refresh != "y" {
		t.Errorf("%+v", r)
	}
}

// What is locked is no logout: the state says what is wrong, and it is over once
// the folder is the user's alone again.
func TestLockedIsShown(t *testing.T) {
	inBubble(t, authserver.Script{}, func(r *rig) {
		m, _ := r.loggedIn(nil)
		if place := m.KeyPlace(bg); !strings.HasPrefix(place, "file: ") {
			t.Error(place)
		}
		if err := os.Chmod(r.dir, 0o755); err != nil {
			t.Fatal(err)
		}
		other := r.manager(nil)
		s := other.Source(r.spec())
		other.Reload(bg)
		st := r.wantPhase(s, Retrying)
		if !strings.Contains(st.Cause, "other users may use") || !strings.HasPrefix(st.Remedy, "chmod ") {
			t.Errorf("%+v", st)
		}
		f := r.call(s)
		r.wantFault(f, fault.Unavailable, "other users may use", "chmod go-rwx")
		if err := os.Chmod(r.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		other.Reload(bg)
		r.mustCall(s)
		r.wantPhase(s, OK)
	})
}
