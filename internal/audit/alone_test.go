package audit

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/everline/everline/config"
)

// Commands that tell one thing each, side by side, leave one chain.
func TestManyAppend(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "audit")
	const all = 4
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			r := &Record{Type: TypeAuth, Action: "token_create", Outcome: OK, Actor: Actor{Kind: CLI}}
			if err := Append(t.Context(), Options{Folder: folder, Run: string(rune('a' + i)), Settings: settings()}, r); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if v, err := Verify(folder, ""); err != nil || !v.Intact || v.Records != all || v.Killed != 0 || v.Open {
		t.Errorf("%+v, %v", v, err)
	}
}

// What one everline has kept of its settings, the next command goes by.
func TestKept(t *testing.T) {
	dir := t.TempDir()
	if s, err := Kept(dir); err != nil || s != config.New().Audit {
		t.Errorf("where there was no everline: %+v, %v", s, err)
	}
	want := config.New().Audit
	want.Level, want.Path, want.Strict, want.Chain = config.AuditCalls, "/somewhere", true, false
	if err := Keep(dir, want); err != nil {
		t.Fatal(err)
	}
	if s, err := Kept(dir); err != nil || s != want {
		t.Errorf("%+v, %v; want %+v", s, err, want)
	}
	if err := os.WriteFile(filepath.Join(dir, keptName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Kept(dir); err == nil || s != config.New().Audit {
		t.Errorf("damaged: %+v, %v", s, err)
	}
}
