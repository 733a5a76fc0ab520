package daemon

import (
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/audit"
)

// A page that is given the right to act, or is not, is recorded before it is told so.
func TestUnlockIsRecorded(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "audit")
	s := config.New().Audit
	s.Strict = true
	log, err := audit.Open(audit.Options{Folder: folder, Run: "1", Settings: s})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close(t.Context()) }) // the test has looked before
	d := &daemon{audit: log}
	read := func() (all []*audit.Record) {
		t.Helper()
		err := audit.Read(t.Context(), folder, audit.Filter{}, false, func(r *audit.Record, _ []byte) error { all = append(all, r); return nil })
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if err := d.unlocked(t.Context(), "127.0.0.1:1", func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if all := read(); len(all) != 1 || all[0].Action != "unlock" || all[0].Outcome != audit.OK || all[0].Actor.Kind != audit.Web || all[0].Actor.Addr != "127.0.0.1" {
		t.Errorf("%+v", all)
	}
	wrong := errors.New("wrong")
	if err := d.unlocked(t.Context(), "127.0.0.1:1", func() error { return wrong }); !errors.Is(err, wrong) {
		t.Error(err)
	}
	d.refusedIdentity(httptest.NewRequest("POST", "/mcp?secretly=needle", nil))
	if err := log.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := read()
	if len(all) != 3 || all[1].Outcome != audit.Refused || all[1].Cause != "wrong" || all[2].Action != "authenticate" || all[2].Type != audit.TypeAuth || all[2].Target.Path != "/mcp" {
		t.Errorf("%+v", all)
	}

	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(folder, nil, 0o600); err != nil { // where the folder has to be
		t.Fatal(err)
	}
	_ = d.unlocked(t.Context(), "", func() error { return nil }) // whose record shows that there is no folder
	done := false
	err = d.unlocked(t.Context(), "", func() error { done = true; return nil })
	if done || fault.KindOf(err) != fault.Overloaded {
		t.Errorf("unlocked unrecorded: %v, %v", done, err)
	}
}
