package catalog

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
)

func full() Saved {
	c := &Catalog{
		Instructions: "do\x00this", ServerInfo: []byte(`{ "name":"x" }`), Capabilities: []byte(`{}`), At: noon,
		Warnings: [4][]string{{"w1", ""}, nil, {"w2"}, nil},
	}
	c.Items[Tools] = []Item{
		{Name: "a", Raw: []byte("{\"name\":\"a\",\n \"n\":1.00}"), Hints: Hints{ReadOnly: true}, Headers: []mcp.HeaderParam{{Path: []string{"p", ""}, Name: "H"}}},
		{Name: "b\xff", Raw: []byte{}, Hints: Hints{Idempotent: true}, BadHeaders: "why"},
	}
	c.Items[Templates] = []Item{{Name: "t", Raw: []byte(`{}`)}}
	return Saved{Catalog: c, Gen: 1 << 60, Era: []byte(`{"Modern":true}`)}
}

// equal compares what was saved with what was loaded; times by instant.
func equal(a, b *Saved) bool {
	if a.Catalog == nil || b.Catalog == nil {
		return reflect.DeepEqual(a, b)
	}
	if !a.Catalog.At.Equal(b.Catalog.At) {
		return false
	}
	ca, cb := *a.Catalog, *b.Catalog
	cb.At = ca.At
	return reflect.DeepEqual(Saved{&ca, a.Gen, a.Era}, Saved{&cb, b.Gen, b.Era})
}

func TestStore(t *testing.T) {
	s := &Store{Dir: filepath.Join(t.TempDir(), "not", "there")}
	if got, err := s.Load("k"); got != nil || err != nil {
		t.Fatalf("missing: %v, %v", got, err)
	}
	for _, want := range []Saved{full(), {Gen: 7}, {Catalog: &Catalog{}}, {}} {
		if err := s.Save("k", want); err != nil {
			t.Fatal(err)
		}
		if err := s.Save("other", full()); err != nil {
			t.Fatal(err)
		}
		got, err := s.Load("k")
		if err != nil || !equal(got, &want) {
			t.Errorf("got %+v, %v\nwant %+v", got, err, want)
		}
	}
	files, err := os.ReadDir(s.Dir)
	if err != nil || len(files) != 2 {
		t.Fatalf("the folder holds %v, %v", files, err)
	}
	if info, err := files[0].Info(); err != nil || (runtime.GOOS != "windows" && info.Mode().Perm() != 0o600) {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	left := s.path("k") + ".123.tmp"
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Remove("k"); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := s.Load("k"); got != nil || err != nil {
		t.Errorf("removed: %v, %v", got, err)
	}
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what a killed writer left is still there: %v", err)
	}
	if got, _ := s.Load("other"); got == nil {
		t.Error("removing one removed another")
	}
}

func TestStoreWritesOnlyWhatChanged(t *testing.T) {
	s := &Store{Dir: t.TempDir()}
	saved := full()
	write := func() os.FileInfo {
		if err := s.Save("k", saved); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(s.path("k"))
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	first := write()
	later := *saved.Catalog
	later.At = noon.Add(1)
	saved.Catalog = &later
	if !os.SameFile(first, write()) {
		t.Error("written again though only the time is another")
	}
	saved.Gen++
	if os.SameFile(first, write()) {
		t.Error("a new generation was not written")
	}
}

func TestStoreDamage(t *testing.T) {
	s := &Store{Dir: t.TempDir()}
	if err := s.Save("k", full()); err != nil {
		t.Fatal(err)
	}
	sound, err := os.ReadFile(s.path("k"))
	if err != nil {
		t.Fatal(err)
	}
	load := func(b []byte) (*Saved, error) {
		if err := os.WriteFile(s.path("k"), b, 0o600); err != nil {
			t.Fatal(err)
		}
		return s.Load("k")
	}
	for i := range sound {
		bad := bytes.Clone(sound)
		bad[i] ^= 0x40
		got, err := load(bad)
		if got != nil || (err == nil) != (i >= len(family) && i < len(magic)) {
			t.Fatalf("byte %d: %v, %v", i, got, err)
		}
		if err != nil && !errors.Is(err, &fault.Fault{Kind: fault.Invalid}) {
			t.Fatalf("byte %d: %v is not of kind Invalid", i, err)
		}
	}
	for n := range sound {
		if got, err := load(sound[:n]); got != nil || (err == nil && n < len(family)) {
			t.Fatalf("cut at %d: %v, %v", n, got, err)
		}
	}
	if got, err := load(append(bytes.Clone(sound), 0)); got != nil || err == nil {
		t.Errorf("longer: %v, %v", got, err)
	}
	if got, err := load(encode("another", full())); got != nil || err == nil {
		t.Errorf("of another server: %v, %v", got, err)
	}
	if got, err := load(bytes.Replace(sound, []byte(magic), []byte(family+"0\n"), 1)); got != nil || err != nil {
		t.Errorf("of an old version: %v, %v", got, err)
	}
	badSum := bytes.Clone(sound)
	badSum[len(magic)] ^= 1
	if got, err := load(badSum); got != nil || err == nil {
		t.Errorf("wrong checksum: %v, %v", got, err)
	}
	if err := s.Save("k", full()); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Load("k"); got == nil || err != nil {
		t.Errorf("saved over a damaged file: %v, %v", got, err)
	}
}

func TestStoreErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Store{Dir: file} // not a folder
	if err := s.Save("k", full()); !errors.Is(err, &fault.Fault{Kind: fault.Internal}) {
		t.Errorf("Save: %v", err)
	}
	s = &Store{Dir: t.TempDir()}
	if err := os.Mkdir(s.path("k"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Save("k", full()); err == nil {
		t.Error("Save over a folder worked")
	}
	if files, _ := os.ReadDir(s.Dir); len(files) != 1 {
		t.Errorf("a failed Save left %v", files)
	}
	if got, err := s.Load("k"); got != nil || !errors.Is(err, &fault.Fault{Kind: fault.Internal}) {
		t.Errorf("Load: %v, %v", got, err)
	}
}

func TestStoreFileNames(t *testing.T) {
	s := &Store{Dir: "dir"}
	seen := map[string]bool{}
	for _, key := range []string{"", "a", "A b", "../x", "a/b", "a*[b", strings.Repeat("x", 300), strings.Repeat("x", 301), "日本"} {
		p := s.path(key)
		if seen[p] || filepath.Dir(p) != "dir" || len(filepath.Base(p)) > 80 || strings.ContainsAny(filepath.Base(p), `*?[]\/ `) {
			t.Errorf("%q is kept as %q", key, p)
		}
		seen[p] = true
	}
}
