package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
)

// settings are those of a record of everything.
func settings() config.Audit {
	s := config.New().Audit
	s.Level = config.AuditCalls
	return s
}

func open(t *testing.T, folder string, s config.Audit) *Log {
	t.Helper()
	l, err := Open(Options{Folder: folder, Run: "9f3c01aa", Settings: s})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, l) })
	return l
}

func shut(t *testing.T, l *Log) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := l.Close(ctx); err != nil {
		t.Error(err)
	}
}

func settle(t *testing.T, l *Log) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := l.Sync(ctx); err != nil {
		t.Fatal(err)
	}
}

func call(n int) *Record {
	return &Record{
		Type: TypeCall, Action: "tools/call", Outcome: "answered", Actor: Actor{Kind: Client, ID: 1, Name: "agent"},
		Target: &Target{Server: "notes", Tool: "write", Generations: []uint64{3}}, Request: &Request{ID: fmt.Sprint(n), Bytes: 10},
	}
}

func verify(t *testing.T, folder string) Verdict {
	t.Helper()
	v, err := Verify(folder, "")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func all(t *testing.T, folder string) (records []*Record) {
	t.Helper()
	err := Read(t.Context(), folder, Filter{}, false, func(r *Record, _ []byte) error {
		records = append(records, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func paths(t *testing.T, folder string) (list []string) {
	t.Helper()
	found, err := files{folder}.list()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		list = append(list, filepath.Join(folder, f.name.String()))
	}
	return list
}

func TestWhatIsNotedIsThere(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "audit")
	l := open(t, folder, settings())
	for i := range 10_000 {
		l.Note(call(i))
		if i%1000 == 0 {
			settle(t, l)
		}
	}
	settle(t, l)
	got := all(t, folder)
	if len(got) != 10_000 || l.Lost() != 0 {
		t.Fatalf("%d records, %d lost", len(got), l.Lost())
	}
	for i, r := range got {
		if r.ID != fmt.Sprintf("9f3c01aa-%d", i+1) || r.Request.ID != fmt.Sprint(i) || r.V != Version || r.Time.IsZero() {
			t.Fatalf("record %d is %+v", i, r)
		}
	}
	if v := verify(t, folder); !v.Intact || v.Records != 10_000 || !v.Open || v.Unchained != 0 {
		t.Errorf("%+v", v)
	}
	info, err := os.Stat(paths(t, folder)[0])
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// A line that was changed, taken out, put in or moved is found.
func TestVerifyFindsWhatWasChanged(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "audit")
	s := settings()
	s.MaxFile = 2 << 10
	l := open(t, folder, s)
	for i := range 40 {
		l.Note(call(i))
		settle(t, l)
	}
	shut(t, l)
	names := paths(t, folder)
	if len(names) < 5 {
		t.Fatalf("%d files", len(names))
	}
	path := names[2]
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(text, []byte{'\n'})
	lines = lines[:len(lines)-1]
	head := verify(t, folder).Head
	for name, changed := range map[string][]byte{
		"a letter":     bytes.Replace(text, []byte("agent"), []byte("Agent"), 1),
		"the last":     bytes.Join(slices.Concat(lines[:len(lines)-1], [][]byte{bytes.Replace(lines[len(lines)-1], []byte("write"), []byte("read"), 1)}), nil),
		"a line less":  bytes.Join(slices.Delete(slices.Clone(lines), 1, 2), nil),
		"a line more":  bytes.Join(slices.Insert(slices.Clone(lines), 1, lines[1]), nil),
		"two swapped":  bytes.Join(slices.Concat(lines[1:2], lines[:1], lines[2:]), nil),
		"no record":    append(slices.Clone(lines[0]), append([]byte("{}\n"), bytes.Join(lines[1:], nil)...)...),
		"a cut":        text[:len(text)-10],
		"nothing left": nil,
	} {
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		if v := verify(t, folder); v.Intact || len(v.Broken) == 0 {
			t.Errorf("%s is not seen: %+v", name, v)
		}
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if v := verify(t, folder); !v.Intact || v.Head != head || v.Open {
		t.Errorf("as it was: %+v", v)
	}
	if err := os.Remove(names[0]); err != nil {
		t.Fatal(err)
	}
	if v := verify(t, folder); v.Intact {
		t.Error("the oldest file is missing, and nothing says that it was deleted")
	}
	if v, err := Verify(folder, head); err != nil || !*v.Found {
		t.Errorf("the head is not found: %+v, %v", v, err)
	}
	if v, err := Verify(folder, Hash([]byte("x"))); err != nil || *v.Found || v.Intact {
		t.Errorf("a hash that no line has is found: %+v, %v", v, err)
	}
}

// Without hashes the numbers show what is missing.
func TestVerifyWithoutChain(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "audit")
	s := settings()
	s.Chain = false
	l := open(t, folder, s)
	for i := range 5 {
		l.Note(call(i))
	}
	shut(t, l)
	if v := verify(t, folder); !v.Intact || v.Unchained != 5 {
		t.Fatalf("%+v", v)
	}
	path := paths(t, folder)[0]
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(text, []byte{'\n'})
	if err := os.WriteFile(path, bytes.Join(slices.Delete(lines, 2, 3), nil), 0o600); err != nil {
		t.Fatal(err)
	}
	if v := verify(t, folder); v.Intact {
		t.Error("a line less is not seen")
	}
}

func TestTheChainGoesOnOverRuns(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "audit")
	for run := range 4 {
		l, err := Open(Options{Folder: folder, Run: fmt.Sprintf("%08d", run), Settings: settings()})
		if err != nil {
			t.Fatal(err)
		}
		l.Note(&Record{Type: TypeSystem, Action: Start, Outcome: OK, Actor: Actor{Kind: System}})
		l.Note(call(run))
		if run != 2 { // which is killed
			l.Note(&Record{Type: TypeSystem, Action: Stop, Outcome: OK, Actor: Actor{Kind: System}})
		}
		shut(t, l)
		if run == 1 { // in the middle of a line
			path := paths(t, folder)[0]
			info, err := os.Stat(path)
			if err == nil {
				err = os.Truncate(path, info.Size()-7)
			}
			if err != nil {
				t.Fatal(err)
			}
			if v := verify(t, folder); !v.Intact || len(v.Torn) != 1 || v.Killed != 1 {
				t.Errorf("%+v", v)
			}
		}
	}
	v := verify(t, folder)
	if !v.Intact || len(v.Torn) != 1 || v.Killed != 2 || v.Records != 11 {
		t.Errorf("%+v", v)
	}
}

func TestFilesTurnAndAreBounded(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "audit")
	s := settings()
	s.MaxFile, s.MaxTotal = 64<<10, 1<<20
	l := open(t, folder, s)
	total := func() (n int64) {
		settle(t, l)
		for _, path := range paths(t, folder) {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			n += info.Size()
		}
		return n
	}
	most := int64(0)
	for i := range 10_000 {
		l.Note(call(i))
		if i%500 == 0 {
			most = max(most, total())
		}
	}
	settle(t, l)
	if limit := s.MaxTotal + 2*maxChunk; most > limit || most < s.MaxTotal/2 {
		t.Errorf("there were %d bytes, more than %d", most, limit)
	}
	v := verify(t, folder)
	if !v.Intact || !v.Pruned || v.Files < 10 || l.Lost() != 0 {
		t.Errorf("%+v, %d lost", v, l.Lost())
	}
	s.MaxTotal /= 2 // takes effect with the next line, not with the next file
	l.Set(s)
	l.Note(call(0))
	if n := total(); n > s.MaxTotal {
		t.Errorf("under a smaller bound there are %d bytes", n)
	}
}

func TestOldFilesAreDeleted(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "audit")
	l := open(t, folder, settings())
	l.Note(call(1))
	shut(t, l)
	old := time.Now().UTC().Add(-31 * 24 * time.Hour).Format(dayForm)
	if err := os.Rename(paths(t, folder)[0], filepath.Join(folder, name{old, 1}.String())); err != nil {
		t.Fatal(err)
	}
	l = open(t, folder, settings())
	l.Note(call(2))
	shut(t, l)
	if got := all(t, folder); len(got) != 2 || got[0].Action != Pruned || len(got[0].Change.Files) != 1 || got[1].Request.ID != "2" {
		t.Errorf("%+v", got)
	}
	if v := verify(t, folder); !v.Intact || !v.Pruned {
		t.Errorf("%+v", v)
	}
}

// A file that is moved away, as other programs do it, is left for a new one.
func TestFileIsMovedAway(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "audit")
	l := open(t, folder, settings())
	l.Note(call(1))
	settle(t, l)
	path := paths(t, folder)[0]
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	l.Note(call(2))
	settle(t, l)
	if got := all(t, folder); len(got) != 1 || got[0].Request.ID != "2" {
		t.Errorf("%+v", got)
	}
}

func TestNames(t *testing.T) {
	for file, want := range map[string]bool{
		"audit-2026-11-28.jsonl": true, "audit-2026-11-28.2.jsonl": true, "audit-2026-11-28.1.jsonl": false, "audit-2026-11-28.x.jsonl": false,
		"audit-2026-13-28.jsonl": false, "audit-2026-11-28.02.jsonl": false, "audit.lock": false, "audit-2026-11-28.jsonl.gz": false,
	} {
		if n, ok := parseName(file); ok != want {
			t.Errorf("%s is %+v, %v", file, n, ok)
		}
	}
	n := name{"2026-11-28", 9}
	if got := n.next("2026-11-27"); got != (name{"2026-11-28", 10}) || got.compare(n) <= 0 {
		t.Errorf("a clock that was set back makes %v", got)
	}
	if got := n.next("2026-11-29"); got != (name{"2026-11-29", 1}) || got.compare(n) <= 0 {
		t.Errorf("the next day has %v", got)
	}
}

// A folder that is not the user's alone, or cannot be made, or is another's.
func TestFolderThatCannotBeUsed(t *testing.T) {
	dir := t.TempDir()
	inFile := filepath.Join(dir, "file")
	if err := os.WriteFile(inFile, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	shared := filepath.Join(dir, "shared")
	if err := os.Mkdir(shared, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(shared, 0o777); err != nil {
		t.Fatal(err)
	}
	taken := filepath.Join(dir, "taken")
	open(t, taken, settings())
	for _, folder := range []string{filepath.Join(inFile, "audit"), shared, taken} {
		s := settings()
		s.Strict = true
		var warned []string
		l, err := Open(Options{Folder: folder, Run: "1", Settings: s, Warn: func(text string, cause error) { warned = append(warned, text) }})
		if err == nil || l.trouble.now() == nil || len(warned) != 1 {
			t.Errorf("%s: %v, warned %q", folder, err, warned)
		}
		if _, f := l.Reserve("tools/call"); f == nil || f.Kind != fault.Overloaded || f.Outcome != fault.NotSent || f.RetryAfter == 0 {
			t.Errorf("%s: a call goes ahead: %v", folder, f)
		}
		l.Note(call(1))
		if err := l.Sync(t.Context()); err == nil {
			t.Error("it was said to be on disk")
		}
		_ = l.Close(t.Context()) // says that it is not complete
		if l.Lost() != 1 {
			t.Errorf("%d lost", l.Lost())
		}
	}
}

// Places are kept for what is to come, and what has none is lost and counted.
func TestPlaces(t *testing.T) {
	s := settings()
	s.Strict = true
	blocked := make(chan struct{})
	out := sinkFunc(func(p []byte) (int, error) { <-blocked; return len(p), nil })
	l, err := Open(Options{Out: out, Run: "1", Settings: s})
	if err != nil {
		t.Fatal(err)
	}
	places := make([]Place, maxQueue)
	for i := range places {
		var f *fault.Fault
		if places[i], f = l.Reserve("x"); f != nil {
			t.Fatal(f)
		}
	}
	if _, f := l.Reserve("x"); f == nil {
		t.Error("there is more room than there is")
	}
	l.Note(call(0)) // of an outcome that nobody has reserved anything for
	places[0].Free()
	places[0].Free()
	for i := range places[1:] {
		places[i+1].Fill(call(i))
	}
	close(blocked)
	shut(t, l)
	if l.Lost() != 1 {
		t.Errorf("%d lost", l.Lost())
	}
}

type sinkFunc func(p []byte) (int, error)

func (f sinkFunc) Write(p []byte) (int, error) { return f(p) }

// What nobody sees coming is counted in a record, once there is room again.
func TestLostIsTold(t *testing.T) {
	gate := make(chan struct{})
	var lines bytes.Buffer
	out := sinkFunc(func(p []byte) (int, error) { <-gate; return lines.Write(p) })
	l, err := Open(Options{Out: out, Run: "1", Settings: settings()})
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxQueue + 100 {
		l.Note(call(i))
	}
	close(gate)
	shut(t, l)
	if l.Lost() != 100 {
		t.Errorf("%d lost", l.Lost())
	}
	text := strings.Split(strings.TrimSpace(lines.String()), "\n")
	var r Record
	if err := json.Unmarshal([]byte(text[len(text)-1]), &r); err != nil || len(text) != maxQueue+1 || r.Action != Lost || r.Count != 100 {
		t.Errorf("%d lines, the last %+v, %v", len(text), r, err)
	}
	if l.Note(call(0)); l.Lost() != 101 {
		t.Errorf("what comes behind the end is not lost, says the count: %d", l.Lost())
	}
}

func TestRefusalsAreBounded(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "audit")
	l := open(t, folder, settings())
	const n = 5000
	for range n {
		l.Refuse(&Record{Type: TypeRefusal, Action: "host", Outcome: Refused, Actor: Actor{Kind: Client, Addr: "192.0.2.7"}})
	}
	shut(t, l)
	got := all(t, folder)
	sum := uint64(0)
	for _, r := range got {
		sum += max(r.Count, 1)
	}
	if sum != n || len(got) > 10*refusalsEach {
		t.Errorf("%d records for %d of %d", len(got), sum, n)
	}
}

func TestLevels(t *testing.T) {
	var none *Log
	if none.Wants(TypeAdmin) || none.WantsCall(event.CallUnknown) || none.Strict() || none.Lost() != 0 || none.Sync(t.Context()) != nil || none.Close(t.Context()) != nil {
		t.Error("no log wants something")
	}
	none.Note(call(1))
	for level, want := range map[config.AuditLevel][3]bool{
		config.AuditOff: {false, false, false}, config.AuditAdmin: {true, false, true}, config.AuditCalls: {true, true, true},
	} {
		s := settings()
		s.Level = level
		l := open(t, filepath.Join(t.TempDir(), "audit"), s)
		if got := [3]bool{l.Wants(TypeAdmin), l.WantsCall(event.CallAnswered), l.WantsCall(event.CallUnknown)}; got != want {
			t.Errorf("%s: %v", level, got)
		}
	}
	if n := testing.AllocsPerRun(100, func() { none.Wants(TypeCall) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// What is off makes nothing, and can be switched on.
func TestLevelChanges(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "audit")
	s := settings()
	s.Level = config.AuditOff
	l := open(t, folder, s)
	l.Note(call(1))
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is there: %v", err)
	}
	s.Level = config.AuditCalls
	l.Set(s)
	l.Note(call(2))
	settle(t, l)
	if got := all(t, folder); len(got) != 1 || got[0].Request.ID != "2" {
		t.Errorf("%+v", got)
	}
}

func TestNothingSecretNothingHidden(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "audit")
	l, err := Open(Options{Folder: folder, Run: "1", Settings: settings(), Hide: func(s string) string { return strings.ReplaceAll(s, "s3cret", "***") }})
	if err != nil {
		t.Fatal(err)
	}
	r := call(1)
	r.Actor.Name, r.Target.URI, r.Request.Names, r.Cause = "a\u202eb", "db://u:s3cret@h", []string{"s3cret\x1b[2J"}, strings.Repeat("ä", 5000)
	l.Note(r)
	shut(t, l)
	text, err := os.ReadFile(paths(t, folder)[0])
	if err != nil || bytes.Contains(text, []byte("s3cret")) || bytes.Contains(text, []byte("\u202e")) || bytes.Contains(text, []byte(`\u001b`)) || len(text) > 4<<10 {
		t.Errorf("%s, %v", text, err)
	}
}

func TestArguments(t *testing.T) {
	args := []byte(`{"query":"needle","apiKey":"s3cret","nested":{"Password":"s3cret","n":12345678901234567890},"list":[{"token":"s3cret"}]}`)
	for mode, check := range map[config.AuditArguments]func(q Request) bool{
		config.AuditNames: func(q Request) bool {
			return slices.Equal(q.Names, []string{"query", "apiKey", "nested", "list"}) && q.SHA256 == "" && q.Arguments == ""
		},
		config.AuditNone: func(q Request) bool { return q.Names == nil && q.SHA256 == "" && q.Arguments == "" },
		config.AuditHash: func(q Request) bool { return len(q.SHA256) == 64 && q.Names == nil && q.Arguments == "" },
		config.AuditFull: func(q Request) bool {
			return strings.Contains(q.Arguments, "needle") && strings.Contains(q.Arguments, "12345678901234567890") && !strings.Contains(q.Arguments, "s3cret")
		},
	} {
		s := settings()
		s.Arguments = mode
		l := open(t, filepath.Join(t.TempDir(), "audit"), s)
		var q, again Request
		l.Describe(&q, args)
		l.Describe(&again, args)
		if !check(q) || q.SHA256 != again.SHA256 {
			t.Errorf("%s: %+v", mode, q)
		}
		for _, odd := range []string{"", "[]", "null", `{"a`, `"x"`} {
			l.Describe(&Request{}, []byte(odd))
		}
	}
}

func TestReadFollows(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "audit")
	s := settings()
	s.MaxFile = 512
	l := open(t, folder, s)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	got, read := make(chan string, 100), make(chan error, 1)
	go func() {
		read <- Read(ctx, folder, Filter{Server: "notes"}, true, func(r *Record, _ []byte) error {
			got <- r.Request.ID
			return nil
		})
	}()
	for i := range 6 {
		other := call(1000)
		other.Target.Server = "other"
		l.Note(other)
		l.Note(call(i))
		settle(t, l)
		if id := <-got; id != fmt.Sprint(i) {
			t.Fatalf("got %s for %d", id, i)
		}
	}
	end()
	if err := <-read; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	shut(t, l)
	if len(paths(t, folder)) < 3 {
		t.Error("the file was never changed")
	}
}

func TestFilter(t *testing.T) {
	r := call(1)
	r.Time = time.Now()
	for i, f := range []Filter{{Server: "x"}, {Type: TypeAdmin}, {Outcome: "unknown"}, {Client: "x"}, {Since: time.Now().Add(time.Hour)}} {
		if f.Matches(r) {
			t.Errorf("filter %d", i)
		}
	}
	if f := (Filter{Server: "notes", Type: TypeCall, Outcome: "answered", Client: "agent", Since: r.Time}); !f.Matches(r) {
		t.Error("all")
	}
}

func BenchmarkNote(b *testing.B) {
	l, err := Open(Options{Folder: filepath.Join(b.TempDir(), "audit"), Run: "1", Settings: settings()})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		l.Note(call(1))
	}
	b.StopTimer()
	_ = l.Close(context.Background())
}

// BenchmarkWrite is what the writer does for a record.
func BenchmarkWrite(b *testing.B) {
	l, err := Open(Options{Folder: filepath.Join(b.TempDir(), "audit"), Run: "1", Settings: settings()})
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		l.Note(call(1))
		if n++; n%1000 == 0 {
			if err := l.Written(ctx); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := l.Written(ctx); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	if l.Lost() > 0 {
		b.Error("lost")
	}
	_ = l.Close(ctx)
}

// Wherever a line was torn, verify says so, before and after everline goes on.
func TestTornAnywhere(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "audit")
	l := open(t, folder, settings())
	l.Note(call(1))
	l.Note(call(2))
	shut(t, l)
	path := paths(t, folder)[0]
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	second := bytes.IndexByte(whole, '\n') + 1
	for end := second + 1; end < len(whole); end++ {
		for _, later := range paths(t, folder)[1:] {
			if err := os.Remove(later); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(path, whole[:end], 0o600); err != nil {
			t.Fatal(err)
		}
		if v := verify(t, folder); !v.Intact || len(v.Torn) != 1 || v.Records != 1 || v.Torn[0].Line != 2 {
			t.Fatalf("cut at %d: %+v", end, v)
		}
		l, err := Open(Options{Folder: folder, Run: "2", Settings: settings()})
		if err != nil {
			t.Fatal(err)
		}
		l.Note(call(3))
		shut(t, l)
		if v := verify(t, folder); !v.Intact || len(v.Torn) != 1 || v.Records != 3 {
			t.Fatalf("cut at %d, and gone on: %+v", end, v)
		}
	}
}
