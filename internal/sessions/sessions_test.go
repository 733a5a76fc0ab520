package sessions

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func openStore(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := OpenStore(dir, func(text string) { t.Error("warned:", text) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestSessionsOutliveTheStore(t *testing.T) {
	dir := t.TempDir()
	first := openStore(t, dir)
	kept, over := New("2025-11-25", 5), New("2025-06-18", 0)
	kept.Client, kept.ClientVersion = "an editor", "2.1"
	keptID, overID := first.Seal("", kept), first.Seal("", over)
	first.SetNote(kept, Note{Level: "info", Subscriptions: []string{"file:///a", "file:///b"}})
	first.SetNote(over, Note{Level: "debug"})
	first.End(over)()
	// An everline that is killed closes nothing.

	second := openStore(t, dir)
	got, ok := second.Open("", keptID)
	if !ok || got != kept {
		t.Errorf("restored %+v, %v, want %+v", got, ok, kept)
	}
	if note := second.Note(kept); note.Level != "info" || len(note.Subscriptions) != 2 {
		t.Errorf("the note is %+v", note)
	}
	if _, ok := second.Open("", overID); ok {
		t.Error("a session that was ended is back")
	}
	if note := second.Note(over); !note.empty() {
		t.Errorf("an ended session has the note %+v", note)
	}
	second.SetNote(kept, Note{})
	if files, _ := os.ReadDir(filepath.Join(dir, "sessions", "notes")); len(files) != 0 {
		t.Errorf("notes are left: %v", files)
	}
	for _, path := range []string{"session.key", "sessions/ended"} {
		if info, err := os.Stat(filepath.Join(dir, path)); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

func TestIDsThatOpenNothing(t *testing.T) {
	s := openStore(t, t.TempDir())
	of := New("2025-11-25", 1)
	id := s.Seal("group", of)
	if len(id) > 150 {
		t.Errorf("an id of %d characters", len(id))
	}
	flipped := []byte(id)
	flipped[len(flipped)/2] ^= 1
	for name, bad := range map[string]string{
		"changed":           string(flipped),
		"cut":               id[:len(id)-4],
		"without prefix":    strings.TrimPrefix(id, prefix),
		"empty":             prefix,
		"no base64":         prefix + "!!!!",
		"too long":          prefix + strings.Repeat("A", 1<<20),
		"padded":            id + "=",
		"short and unknown": prefix + base64.RawURLEncoding.EncodeToString(make([]byte, 40)),
	} {
		if _, ok := s.Open("group", bad); ok {
			t.Errorf("an id that is %s opens a session", name)
		}
	}
	if _, ok := s.Open("other", id); ok {
		t.Error("an id of one endpoint opens a session of another")
	}
	if _, ok := s.Open("group", id); !ok {
		t.Error("the id itself opens nothing")
	}
}

// An id whose key is lost says in clear what its client has agreed on, under a name that is
// always the same; the end of it is kept as that of others.
func TestAnIDOfALostKey(t *testing.T) {
	of := New("2025-11-25", 5)
	id := openStore(t, t.TempDir()).Seal("group", of)
	dir := t.TempDir()
	s := openStore(t, dir)
	got, ok := s.Open("group", id)
	if !ok || got.Version != of.Version || got.Serves != of.Serves || got.Name == of.Name {
		t.Errorf("%+v, %v, sealed was %+v", got, ok, of)
	}
	again, _ := openStore(t, t.TempDir()).Open("group", id)
	elsewhere, _ := s.Open("other", id)
	if again.Name != got.Name || elsewhere.Name == got.Name {
		t.Errorf("named %x, then %x, at another endpoint %x", got.Name, again.Name, elsewhere.Name)
	}
	s.End(got)()
	if _, ok := openStore(t, dir).Open("group", id); ok {
		t.Error("its end is forgotten")
	}
}

func TestKeysAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := openStore(t, dir)
		of := New("v", 0)
		first := s.Seal("", of)
		time.Sleep(keyAge)
		next := New("v", 0)
		second := s.Seal("", next)
		if got, _ := s.Open("", first); got.Name != of.Name {
			t.Error("an id of the key before opens another session")
		}
		time.Sleep(keyAge)
		s.Seal("", New("v", 0))
		if got, _ := s.Open("", first); got.Name == of.Name {
			t.Error("a key opens an id after two others")
		}
		if got, _ := s.Open("", second); got.Name != next.Name {
			t.Error("an id of the key before opens another session after the second renewal")
		}
		again := openStore(t, dir)
		if got, _ := again.Open("", second); got.Name != next.Name {
			t.Error("after a restart the key before opens another session")
		}
	})
}

func TestEndedSessionsAreForgottenWithTheirKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := openStore(t, dir)
		for range 3 {
			of := New("v", 0)
			s.SetNote(of, Note{Level: "info"})
			s.End(of)()
			s.End(of)()
			s.SetNote(New("v", 0), Note{Level: "info"})
		}
		if n := len(openStore(t, dir).ended.order); n != 3 {
			t.Errorf("%d ended sessions are known, want 3", n)
		}
		time.Sleep(keyAge)
		s.Seal("", New("v", 0))
		time.Sleep(keyAge)
		s.Seal("", New("v", 0))
		later := openStore(t, dir)
		if n, notes := len(later.ended.order), len(later.notes.kept); n != 0 || notes != 0 {
			t.Errorf("%d ended sessions and %d notes are left of keys that open nothing", n, notes)
		}
	})
}

func TestEndedSessionsAreBounded(t *testing.T) {
	e := &ended{path: filepath.Join(t.TempDir(), "ended"), known: map[short]struct{}{}, warn: func(text string) { t.Error(text) }}
	if err := e.rewrite(); err != nil {
		t.Fatal(err)
	}
	var last Session
	for range 2*maxEnded + 10 {
		last = New("v", 0)
		if !e.mark(last) || e.mark(last) {
			t.Fatal("a session is marked once")
		}
		e.write(last)
	}
	if len(e.order) > maxEnded || len(e.order) != len(e.known) || !e.has(last.Name) {
		t.Errorf("%d sessions in order, %d known", len(e.order), len(e.known))
	}
	if err := e.close(); err != nil {
		t.Fatal(err)
	}
	again, err := openEnded(e.path, last.Issued.Add(-time.Hour), func(text string) { t.Error(text) })
	if err != nil || len(again.order) > maxEnded || !again.has(last.Name) {
		t.Errorf("%d sessions are on disk, %d in memory: %v", len(again.order), len(e.order), err)
	}
	_ = again.close()
}

func TestFilesThatAreDamaged(t *testing.T) {
	for name, damage := range map[string]struct{ path, text string }{
		"keys":        {"session.key", "nonsense"},
		"a cut key":   {"session.key", keyMagic + "1700000000 QUJD\n"},
		"no keys":     {"session.key", keyMagic},
		"ended":       {"sessions/ended", "nonsense that is longer than a record"},
		"empty ended": {"sessions/ended", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			openStore(t, dir)
			if err := os.WriteFile(filepath.Join(dir, damage.path), []byte(damage.text), 0o600); err != nil {
				t.Fatal(err)
			}
			var warned []string
			s, err := OpenStore(dir, func(text string) { warned = append(warned, text) })
			if err != nil || len(warned) != 1 {
				t.Fatalf("%v, warned %q", err, warned)
			}
			defer s.Close()
			if text, err := os.ReadFile(filepath.Join(dir, damage.path+".damaged")); err != nil || string(text) != damage.text {
				t.Errorf("the file is not kept aside: %q, %v", text, err)
			}
			if _, ok := s.Open("", s.Seal("", New("v", 0))); !ok {
				t.Error("a new id opens nothing")
			}
		})
	}
}

// A record that was being written when everline was killed costs itself alone.
func TestCutRecord(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	one, two := New("v", 0), New("v", 0)
	s.End(one)()
	s.End(two)()
	path := filepath.Join(dir, "sessions", "ended")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, info.Size()-3); err != nil {
		t.Fatal(err)
	}
	again := openStore(t, dir)
	again.End(two)()
	last := openStore(t, dir)
	if !last.ended.has(one.Name) || !last.ended.has(two.Name) {
		t.Error("a cut record has cost another one")
	}
}

func TestNotesAreBounded(t *testing.T) {
	s := openStore(t, t.TempDir())
	s.notes.kept = map[string]int64{}
	first := New("v", 0)
	s.SetNote(first, Note{Level: "info"})
	for i := range maxNotes {
		s.notes.kept[strconv.Itoa(i)] = first.Issued.Unix() + 1
	}
	last := New("v", 0)
	s.SetNote(last, Note{Level: "debug"})
	if n := s.Note(first); !n.empty() {
		t.Errorf("the oldest still has the note %+v", n)
	}
	if n := s.Note(last); n.Level != "debug" {
		t.Errorf("the newest has the note %+v", n)
	}
}

func BenchmarkOpen(b *testing.B) {
	s, err := OpenStore(b.TempDir(), func(string) {})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	good := s.Seal("", New("2025-11-25", 7))
	forged := []byte(good)
	forged[len(forged)/2] ^= 1
	for name, id := range map[string]string{"good": good, "forged": string(forged)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Open("", id)
			}
		})
	}
}

// What a client calls itself is kept as far as an id has room, whatever is in it.
func TestNamesInIDs(t *testing.T) {
	s := openStore(t, t.TempDir())
	for _, c := range [][4]string{
		{"x", "", "x", ""},
		{"", "2", "", "2"},
		{"", "", "", ""},
		{"a\x00b", "\x00", "ab", ""},
		{strings.Repeat("é", 100), strings.Repeat("v", 100), strings.Repeat("é", 32), strings.Repeat("v", 64)},
		{"a" + strings.Repeat("é", 100), "", "a" + strings.Repeat("é", 31), ""},
	} {
		of := New("2025-11-25", 1)
		of.Client, of.ClientVersion = c[0], c[1]
		id := s.Seal("", of)
		got, ok := s.Open("", id)
		if !ok || got.Client != c[2] || got.ClientVersion != c[3] || got.Version != "2025-11-25" || len(id) > 400 {
			t.Errorf("%q, %q: %+v, %v, an id of %d characters", c[0], c[1], got, ok, len(id))
		}
	}
}
