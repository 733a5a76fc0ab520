//go:build unix

package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/audit"
	"github.com/everline/everline/internal/sandbox"
)

// state is a state folder with a file of each kind, and a record of two lines.
func state(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"clients", "local.token", "credentials", "credentials.key", "ui.key", "a.catalog"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 {
		o := audit.Options{Folder: filepath.Join(dir, "audit"), Run: fmt.Sprint(i), Settings: config.New().Audit}
		if err := audit.Append(t.Context(), o, &audit.Record{Type: audit.TypeAdmin, Action: "trust", Outcome: audit.OK}); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// What others could read or change is named, with what to type.
func TestWhatIsOpenToOthers(t *testing.T) {
	quiet := parse(t, `{"everline": {"listen": "127.0.0.1:0"}}`)
	if got, failed := examine(t, Options{Config: quiet, StateDir: state(t)}); failed || got["permissions"].Verdict != OK || got["audit"].Verdict != OK {
		t.Errorf("where all is well: %+v", got)
	}
	for _, c := range []struct {
		name  string
		mode  os.FileMode
		check string
	}{
		{"clients", 0o644, "clients"},
		{"local.token", 0o640, "clients"},
		{"ui.key", 0o604, "clients"},
		{"credentials", 0o620, "credentials"},
		{"credentials.key", 0o602, "credentials"},
		{"a.catalog", 0o644, "state"},
		{"audit", 0o750, "audit"},
	} {
		dir := state(t)
		path := filepath.Join(dir, c.name)
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		got, failed := examine(t, Options{Config: quiet, StateDir: dir})
		if f := got[c.check]; !failed || f.Verdict != Fail || f.Remedy != "chmod go-rwx "+path || !strings.Contains(f.Text, fmt.Sprintf("%04o", c.mode)) {
			t.Errorf("%s: %+v", c.name, f)
		}
	}
	dir := state(t)
	file := filepath.Join(dir, "audit", "audit-2026-01-01.jsonl")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, _ := examine(t, Options{Config: quiet, StateDir: dir}); got["audit"].Remedy != "chmod go-rwx "+file {
		t.Errorf("a file of the record: %+v", got["audit"])
	}
}

func TestConfigurationThatOthersMayWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "everline.json")
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	got, failed := examine(t, Options{Config: parse(t, `{}`), Files: []string{path}})
	if f := got["permissions"]; !failed || f.Verdict != Fail || !strings.HasPrefix(f.Remedy, "chmod ") {
		t.Errorf("%+v", f)
	}
}

// The record is looked at where it is: whether it can go on, and its newest file.
func TestTheRecordIsLookedAt(t *testing.T) {
	quiet := parse(t, `{"everline": {"listen": "127.0.0.1:0"}}`)
	dir := state(t)
	all, err := filepath.Glob(filepath.Join(dir, "audit", "audit-*.jsonl"))
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	text, err := os.ReadFile(all[0])
	if err != nil {
		t.Fatal(err)
	}
	older := filepath.Join(dir, "audit", "audit-2020-01-01.jsonl")
	if err := os.WriteFile(older, []byte("not a line\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, _ := examine(t, Options{Config: quiet, StateDir: dir}); got["audit"].Verdict != OK || !strings.Contains(got["audit"].Text, "2 lines") {
		t.Errorf("%+v", got["audit"])
	}
	if err := os.WriteFile(all[0], []byte(strings.Replace(string(text), `"trust"`, `"other"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, failed := examine(t, Options{Config: quiet, StateDir: dir}); !failed || got["audit"].Verdict != Fail || !strings.Contains(got["audit"].Text, "was changed") {
		t.Errorf("changed: %+v", got["audit"])
	}
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.WriteFile(elsewhere, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	moved := *quiet
	moved.Audit.Path = elsewhere
	if got, _ := examine(t, Options{Config: &moved, StateDir: dir}); got["audit"].Verdict != Fail || !strings.Contains(got["audit"].Text, "no folder") {
		t.Errorf("a file in its place: %+v", got["audit"])
	}
	moved.Audit.Level = config.AuditOff
	if got, _ := examine(t, Options{Config: &moved, StateDir: state(t)}); got["audit"].Text != "" {
		t.Errorf("off: %+v", got["audit"])
	}
}

// pair writes a certificate for gw.example.com and its key.
func pair(t *testing.T, from, until time.Time) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "gw"}, DNSNames: []string{"gw.example.com"}, NotBefore: from, NotAfter: until,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestCertificateOfTheEndpoint(t *testing.T) {
	now := time.Now()
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		from, until time.Time
		public      string
		mode        os.FileMode
		verdict     Verdict
		says        string
		key         Verdict // of the key's mode; "" for nothing said
	}{
		"good":       {now.Add(-day), now.Add(90 * day), "https://gw.example.com", 0o640, OK, "is good until", ""},
		"expired":    {now.Add(-3 * day), now.Add(-day), "", 0o600, Fail, "has expired", ""},
		"soon":       {now.Add(-day), now.Add(3*day + time.Hour), "", 0o600, Warn, "expires in 3d", ""},
		"early":      {now.Add(day), now.Add(90 * day), "", 0o600, Fail, "is not good before", ""},
		"other name": {now.Add(-day), now.Add(90 * day), "https://other.example.com", 0o600, Warn, "is not for other.example.com", ""},
		"open key":   {now.Add(-day), now.Add(90 * day), "", 0o644, OK, "is good until", Fail},
		"not there":  {now.Add(-day), now.Add(90 * day), "", 0, Fail, "cannot be used", ""},
	} {
		cert, key := pair(t, c.from, c.until)
		cfg := config.New()
		cfg.Listen, cfg.PublicURL, cfg.TLS.CertFile, cfg.TLS.KeyFile = "127.0.0.1:0", c.public, cert, key
		if err := os.Chmod(key, c.mode); err != nil {
			t.Fatal(err)
		}
		if c.mode == 0 {
			if err := os.Remove(key); err != nil {
				t.Fatal(err)
			}
		}
		got, _ := examine(t, Options{Config: cfg, Files: []string{}})
		if f := got["certificate"]; f.Verdict != c.verdict || !strings.Contains(f.Text, c.says) {
			t.Errorf("%s: %+v", name, f)
		}
		if f := got["permissions"]; f.Verdict != c.key || c.key == Fail && f.Remedy != "chmod o-rwx "+key {
			t.Errorf("%s: the key: %+v", name, f)
		}
	}
}

// Who reaches the endpoint is said, and what of that is open to everybody.
func TestWhoReachesTheEndpoint(t *testing.T) {
	open := []admin.Exposure{{To: admin.ToNetwork, Text: "everybody comes in", Remedy: "close it"}}
	for name, c := range map[string]struct {
		text    string
		running *admin.Status
		refusal *fault.Fault
		verdict Verdict
		says    string
	}{
		"one's own":         {`{}`, nil, nil, OK, "your own user alone"},
		"any local":         {`{"everline": {"clients": "any-local"}}`, nil, nil, Warn, "any-local"},
		"refused":           {`{}`, nil, &fault.Fault{Kind: fault.Invalid, Err: os.ErrPermission, Remedy: "name a certificate"}, Fail, "permission"},
		"tokens":            {`{"everline": {"auth": {"tokens": true}}}`, nil, nil, OK, "shows who they are"},
		"behind a proxy":    {`{"everline": {"auth": {"tokens": true}, "tlsTerminatedBy": "proxy"}}`, nil, nil, OK, "the proxy's matter"},
		"one that runs":     {`{}`, &admin.Status{Endpoint: "http://192.0.2.1:7433/mcp"}, nil, OK, "192.0.2.1:7433"},
		"one that is open":  {`{}`, &admin.Status{Endpoint: "http://192.0.2.1:7433/mcp", Exposed: open}, nil, Warn, "everybody comes in"},
		"one without a URL": {`{}`, &admin.Status{}, nil, "", ""},
	} {
		got, _ := examine(t, Options{Config: parse(t, c.text), Running: c.running, MayServe: func(string) *fault.Fault { return c.refusal }})
		if f := got["exposure"]; f.Verdict != c.verdict || !strings.Contains(f.Text, c.says) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// What a sandbox asks for and the kernel has not is a warning, or a failure where it is
// required.
func TestSandboxesAreLookedAt(t *testing.T) {
	cfg := parse(t, `{"everline": {"listen": "127.0.0.1:0"}, "mcpServers": {
		"plain": {"command": "true"}, "kept": {"command": "true", "everline": {"sandbox": {"write": ["/tmp"]}}},
		"must": {"command": "true", "everline": {"sandbox": {"require": true, "net": false}}},
		"both": {"command": "true", "everline": {"sandbox": {}, "newPrivileges": true}}}}`)
	got, _ := examine(t, Options{Config: cfg, Running: &admin.Status{}, Landlock: &sandbox.Support{ABI: 7, Files: true, Net: true}})
	if got["plain/sandbox"].Text != "" || got["kept/sandbox"].Verdict != OK || got["must/sandbox"].Verdict != OK || got["both/sandbox"].Verdict != Warn {
		t.Errorf("with Landlock: %+v", got)
	}
	got, _ = examine(t, Options{Config: cfg, Running: &admin.Status{}, Landlock: &sandbox.Support{ABI: 3, Files: true}})
	if got["kept/sandbox"].Verdict != OK || got["must/sandbox"].Verdict != Fail {
		t.Errorf("without the network: %+v", got)
	}
	got, _ = examine(t, Options{Config: cfg, Running: &admin.Status{}, Landlock: &sandbox.Support{}})
	if got["kept/sandbox"].Verdict != Warn || got["must/sandbox"].Verdict != Fail {
		t.Errorf("without Landlock: %+v", got)
	}
}
