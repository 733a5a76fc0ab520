package doctor

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/audit"
	"github.com/everline/everline/internal/owned"
	"github.com/everline/everline/internal/sandbox"
	"github.com/everline/everline/internal/show"
)

// Bits of a file's mode by which others get at it.
const (
	groupAndOthers fs.FileMode = 0o077
	others         fs.FileMode = 0o007
)

const (
	maxBad   = 5      // files that are named one by one
	maxFiles = 20_000 // that are looked at
)

// kept says what a file in the state folder holds, by the first part of its name; the
// order matters.
var kept = []struct{ prefix, check, what string }{
	{"clients", "clients", "tokens of clients"},
	{"local.token", "clients", "a token"},
	{"ui.key", "clients", "the key of the page"},
	{"credentials", "credentials", "logins"},
	{"audit", "audit", "the audit record"},
}

// guarded looks whether others could get at what everline keeps, or come in unasked.
func (e *examination) guarded() {
	if runtime.GOOS != "windows" { // where access lists say it
		e.stateFiles()
		e.secretFiles()
	}
	e.exposure()
	e.certificate()
	e.record()
}

// owners reports a configuration file that others could have written.
func (e *examination) owners(path string) {
	if err := owned.File(path); err != nil {
		f := fault.From("look", err)
		e.say("permissions", "", Fail, f.Remedy, "%s", f.Reason())
	}
}

// stateFiles looks at the modes and owners of all that is in the state folder, and of
// the audit record elsewhere.
func (e *examination) stateFiles() {
	if err := owned.Folder(e.StateDir); err != nil {
		return // it is not there, or is reported as a whole
	}
	e.tree(e.StateDir, "")
	if folder := e.auditFolder(); folder != "" && filepath.Dir(folder) != filepath.Clean(e.StateDir) {
		e.tree(folder, "audit")
	}
}

// tree looks at everything in a folder that is the user's alone; check is what it is
// about, "" to go by the names.
func (e *examination) tree(folder, check string) {
	bad, seen := 0, 0
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if seen++; seen > maxFiles || errors.Is(err, fs.ErrNotExist) { // it has gone meanwhile
			return nil
		}
		if err != nil {
			return err
		}
		if path == folder && check == "" {
			return nil // which has been looked at
		}
		f := e.judge(path, d, check)
		if f == nil {
			return nil
		}
		if bad++; bad <= maxBad {
			e.add(*f)
		}
		return nil
	})
	switch {
	case err != nil:
		e.say("state", "", Fail, "chown -R "+me()+" "+folder, "%v", err)
	case bad > maxBad:
		e.say("state", "", Fail, "chmod -R go-rwx "+folder, "%d more files in %s are open to others", bad-maxBad, folder)
	case bad == 0 && check == "":
		e.say("permissions", "", OK, "", "what is in %s is your own alone", folder)
	}
}

func me() string { return fmt.Sprint(os.Geteuid()) }

// judge is what is wrong with the mode or owner of one file; nil if nothing is.
func (e *examination) judge(path string, d fs.DirEntry, check string) *Finding {
	info, err := d.Info()
	if err != nil || d.Type()&(fs.ModeSymlink|fs.ModeSocket) != 0 { // it has gone, or has no mode of its own
		return nil
	}
	what := "a file of everline"
	rest, _ := filepath.Rel(e.StateDir, path) // below, or check is given
	for _, k := range kept {
		if check == k.check || check == "" && strings.HasPrefix(rest, k.prefix) {
			check, what = k.check, k.what
			break
		}
	}
	if check == "" {
		check = "state"
	}
	if d.IsDir() {
		what = "a folder"
	}
	if owner, known := owned.Owner(path); known && owner != os.Geteuid() && owner != 0 {
		return &Finding{Check: check, Verdict: Fail, Text: fmt.Sprintf("%s (%s) is another user's (uid %d)", path, what, owner), Remedy: "sudo chown " + me() + " " + path}
	}
	if info.Mode().Perm()&groupAndOthers != 0 {
		return &Finding{Check: check, Verdict: Fail, Text: fmt.Sprintf("%s (%s) is open to other users of this machine (mode %04o)", path, what, info.Mode().Perm()), Remedy: "chmod go-rwx " + path}
	}
	return nil
}

// secretFiles looks at files that the configuration names, and that hold secrets.
func (e *examination) secretFiles() {
	for _, s := range []struct{ path, what string }{
		{e.Config.TLS.KeyFile, "the key of the endpoint's certificate"},
		{e.Config.MetricsTokenFile, "the token of metrics"},
		{e.CredentialsKey, "the key that logins are encrypted with"},
	} {
		info, err := os.Stat(s.path)
		if s.path == "" || err != nil { // who uses it says so
			continue
		}
		if info.Mode().Perm()&others != 0 {
			e.say("permissions", "", Fail, "chmod o-rwx "+s.path, "%s is open to every user of this machine: %s (mode %04o)", s.what, s.path, info.Mode().Perm())
		}
	}
}

// exposure says who reaches the endpoint, and what of that is open to everybody.
func (e *examination) exposure() {
	at := e.Config.Listen
	if st := e.Running; st != nil {
		u, err := url.Parse(st.Endpoint)
		if err != nil || u.Host == "" {
			return // it serves stdio alone
		}
		at = u.Host
		for _, open := range st.Exposed {
			e.say("exposure", "", Warn, open.Remedy, "%s", open.Text)
		}
		if len(st.Exposed) > 0 {
			return
		}
	} else {
		if f := e.MayServe(at); f != nil {
			e.say("exposure", "", Fail, f.Remedy, "%s", f.Reason())
			return
		}
		if e.Config.Clients == config.ClientsAnyLocal {
			e.say("exposure", "", Warn, `"clients": "same-user", or "auth" and "clients": "tokens"`, `every user of this machine can come in: "clients" is "any-local"`)
			return
		}
	}
	switch {
	case e.Config.Access.Demanded && e.Config.TLSTerminatedBy == config.TLSByProxy:
		e.say("exposure", "", OK, "", "who comes in at %s shows who they are; that it is encrypted is the proxy's matter", at)
	case e.Config.Access.Demanded:
		e.say("exposure", "", OK, "", "who comes in at %s shows who they are", at)
	default:
		e.say("exposure", "", OK, "", "%s is for this machine and your own user alone", at)
	}
}

// soon is before the end of a certificate when somebody should see to it.
const soon = 14 * 24 * time.Hour

// certificate looks at that of the endpoint.
func (e *examination) certificate() {
	files := e.Config.TLS
	if files.CertFile == "" {
		return
	}
	pair, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
	if err != nil {
		e.say("certificate", "", Fail, "correct \"certFile\" and \"keyFile\" under \"tls\"", "%s cannot be used: %v", files.CertFile, err)
		return
	}
	e.validity(files.CertFile, pair.Leaf)
	if u, err := url.Parse(e.Config.PublicURL); err == nil && u.Hostname() != "" && pair.Leaf.VerifyHostname(u.Hostname()) != nil {
		e.say("certificate", "", Warn, "have it made out for "+u.Hostname()+", or correct \"publicUrl\"", "%s is not for %s, which is where clients are sent", files.CertFile, u.Hostname())
	}
}

func (e *examination) validity(path string, c *x509.Certificate) {
	now := time.Now()
	day := func(t time.Time) string { return t.Local().Format("2006-01-02 15:04") }
	const renew = "renew it; a new file is taken up without a restart"
	switch {
	case now.After(c.NotAfter):
		e.say("certificate", "", Fail, renew, "%s has expired, at %s: clients refuse it", path, day(c.NotAfter))
	case now.Before(c.NotBefore):
		e.say("certificate", "", Fail, "correct the clock of this machine, or have it made out anew", "%s is not good before %s", path, day(c.NotBefore))
	case now.Add(soon).After(c.NotAfter):
		e.say("certificate", "", Warn, renew, "%s expires in %s, at %s", path, show.Span(c.NotAfter.Sub(now)), day(c.NotAfter))
	default:
		e.say("certificate", "", OK, "", "%s is good until %s", path, day(c.NotAfter))
	}
}

// auditFolder is where the record is; "" where it goes to standard error.
func (e *examination) auditFolder() string {
	switch path := e.Config.Audit.Path; path {
	case config.AuditStderr:
		return ""
	case "":
		return filepath.Join(e.StateDir, admin.AuditFolder)
	default:
		return path
	}
}

// record looks whether the audit record can be written, and whether its newest file is
// as it was written.
func (e *examination) record() {
	folder := e.auditFolder()
	if e.Config.Audit.Level == config.AuditOff || folder == "" {
		return
	}
	if info, err := os.Stat(folder); err == nil && info.IsDir() {
		if err := owned.Folder(folder); err != nil {
			f := fault.From("look", err)
			e.say("audit", "", Fail, f.Remedy, "nothing can be recorded: %s", f.Reason())
			return
		}
		if err := e.canWrite(folder); err != nil {
			e.say("audit", "", Fail, "make room there and let everline write, or name another folder in audit.path", "nothing can be recorded in %s: %v", folder, err)
			return
		}
		e.chain(folder)
		return
	} else if err == nil {
		e.say("audit", "", Fail, "name another folder in audit.path", "nothing can be recorded: %s is no folder", folder)
		return
	}
	e.say("audit", "", OK, "", "nothing is recorded so far in %s", folder)
}

func (e *examination) canWrite(folder string) error {
	f, err := e.CreateTemp(folder, ".everline-doctor-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // it is gone, or says nothing
	_, err = f.Write(make([]byte, 4096))
	return errors.Join(err, f.Sync(), f.Close())
}

// chain compares the lines of the newest file.
func (e *examination) chain(folder string) {
	v, err := audit.VerifyNewest(folder)
	switch {
	case err != nil:
		e.say("audit", "", Fail, "everline audit verify --folder "+folder, "the record in %s cannot be read: %v", folder, err)
	case !v.Intact:
		e.say("audit", "", Fail, "everline audit verify --folder "+folder, "the record was changed: %s", v.Broken[0])
	case v.Lost > 0:
		e.say("audit", "", Warn, "everline audit verify --folder "+folder, "%s could not be written", show.Plural(int(v.Lost), "record"))
	default:
		e.say("audit", "", OK, "", "the record is in %s: %s in its newest file, as they were written", folder, show.Plural(v.Records, "line"))
	}
}

// confinement says whether this system can do what a server's sandbox asks for.
func (e *examination) confinement(s config.Server) {
	if s.Sandbox == nil {
		return
	}
	support := *e.Landlock
	r := sandbox.Rules{Net: s.Sandbox.Net}
	verdict, remedy := Warn, "run it in a container, or on a kernel that can; \"require\": true has it refused here"
	if s.Sandbox.Require {
		verdict, remedy = Fail, "a newer kernel, a container (docs/how-to/sandbox-a-server.md), or \"require\": false"
	}
	switch {
	case support.Enforces(r) && s.NewPrivileges:
		e.say("sandbox", s.Name, Warn, "take \"newPrivileges\" out", "a sandbox takes new privileges away: what is setuid does not work there")
	case support.Enforces(r):
		e.say("sandbox", s.Name, OK, "", "the kernel (Landlock ABI %d) keeps it to what its sandbox says", support.ABI)
	default:
		e.say("sandbox", s.Name, verdict, remedy, "of its sandbox this system enforces %s", support)
	}
}
