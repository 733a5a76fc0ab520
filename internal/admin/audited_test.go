package admin

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/audit"
)

// Everything that does something is recorded when it is answered, with who did it
// and whether it worked; what only looks is not.
func TestDoingsAreRecorded(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "audit")
	log, err := audit.Open(audit.Options{Folder: folder, Run: "1", Settings: config.New().Audit})
	if err != nil {
		t.Fatal(err)
	}
	h := newFake(t)
	handler := New(Options{Hub: h, Journal: NewJournal(), StateDir: t.TempDir(), Audit: log, Page: noPage{}}).Handler()
	for _, c := range []struct{ route, body, want string }{
		{"GET /v1/status", "", ""},
		{"POST /v1/servers/up/ping", "", ""},
		{"POST /v1/servers/up/disable", "", "admin disable up ok "},
		{"POST /v1/servers/up/enable", "", "admin enable up ok "},
		{"POST /v1/servers/up/restart", "", "admin restart up ok "},
		{"POST /v1/servers/nobody/disable", "", "admin disable nobody failed not_found"},
		{"POST /v1/pins/approve", `{}`, "admin approve a ok "},
		{"POST /v1/servers/up/logout", "", "auth logout up ok "},
		{"POST /v1/servers/up/drill", "{", "admin drill up failed invalid"},
		{"POST /v1/logins/x/deliver", "{}", "auth deliver  failed not_found"},
		{"POST /v1/servers/up/login", "{}", "auth login up failed unsupported"},
		{"POST /v1/page/code", "", "admin page_link  ok "},
		{"POST /v1/page/revoke", "", "admin page_revoke  ok "},
		{"POST /v1/did/token_create", `{"target":{"token":"ci"}}`, "auth token_create  ok "},
		{"POST /v1/did/token_revoke", `{"target":{"token":"x"},"error":{"kind":"not_found","message":"there is none"}}`, "auth token_revoke  failed not_found"},
		{"POST /v1/did/token_rotate?dryRun=1", "{}", ""},
		{"POST /v1/did/trust", `{"target":{"path":"/x"}}`, "admin trust  ok "},
		{"POST /v1/did/rekey", "{", "auth rekey  failed invalid"},
		{"POST /v1/did/something", "{}", "admin something  failed not_found"},
	} {
		method, path, _ := strings.Cut(c.route, " ")
		r, err := http.NewRequestWithContext(t.Context(), method, path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.RemoteAddr = peerAddr{uid: 1000, pid: os.Getppid()}.String()
		before := count(t, folder)
		handler.ServeHTTP(httptest.NewRecorder(), r)
		got := ""
		if all := count(t, folder); len(all) > len(before) { // without waiting: it is there when the answer is
			last := all[len(all)-1]
			got = last.Type + " " + last.Action + " "
			if last.Target != nil {
				got += last.Target.Server
			}
			got += " " + last.Outcome + " " + last.Kind
			if last.Actor.Kind != audit.CLI || *last.Actor.UID != 1000 || last.Actor.PID != os.Getppid() {
				t.Errorf("%s: by %+v", c.route, last.Actor)
			}
			if c.want == "admin approve a ok " {
				first := all[len(all)-2]
				if first.Target.Tool != "send" || last.Target.Tool != "" || first.Change.Was != audit.Hash([]byte(`{"name":"send"}`)) || first.Change.Now == first.Change.Was {
					t.Errorf("approved %+v %+v, %+v", first.Target, first.Change, last.Target)
				}
			}
		}
		if got != c.want {
			t.Errorf("%s is recorded as %q, want %q", c.route, got, c.want)
		}
	}
	if err := log.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

type noPage struct{}

func (noPage) Link() (string, error) { return "", nil }
func (noPage) Revoke() error         { return nil }

func count(t *testing.T, folder string) (all []*audit.Record) {
	t.Helper()
	err := audit.Read(t.Context(), folder, audit.Filter{}, false, func(r *audit.Record, _ []byte) error {
		all = append(all, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// What must be recorded and cannot be is not done, and status says why.
func TestNothingIsDoneUnrecorded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := config.New().Audit
	s.Strict = true
	log, err := audit.Open(audit.Options{Folder: filepath.Join(file, "audit"), Run: "1", Settings: s})
	if err == nil {
		t.Fatal("a folder within a file")
	}
	h := newFake(t)
	a := New(Options{Hub: h, Journal: NewJournal(), StateDir: t.TempDir(), Audit: log})
	r := httptest.NewRequest(http.MethodPost, "/v1/servers/up/disable", nil)
	r.RemoteAddr = peerAddr{pid: os.Getppid()}.String()
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, r)
	if w.Code != httpStatus(fault.Overloaded) || !strings.Contains(w.Body.String(), "it cannot be recorded") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if p := a.auditProblem(); len(p) != 1 || !strings.Contains(p[0].Text, "audit.strict refuses calls") || p[0].Since.IsZero() {
		t.Errorf("%+v", p)
	}
	_ = log.Close(t.Context())
}
