package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/auth"
	"github.com/everline/everline/internal/fleet"
)

// login follows what a server that refuses us says of how to log in to it. Of a
// search that fails each question is told, with its answer. It returns what to do;
// "" if a login is all that it takes.
func (e *examination) login(ctx context.Context, s config.Server) (remedy string) {
	m := auth.New(auth.Options{StateDir: e.credentials(), KeyFile: e.CredentialsKey})
	defer m.Close()
	m.Source(fleet.Credential(&s))
	ctx, cancel := context.WithTimeout(ctx, e.Timeout)
	defer cancel()
	x, err := m.Explain(ctx, s.Name)
	if err != nil {
		f := fault.From("login", err)
		if remedy = f.Remedy; len(x.Steps) > 0 {
			remedy = searchRemedy(f)
		}
		for i, step := range x.Steps {
			e.step(s.Name, step, i == 0)
		}
		e.say("login", s.Name, Fail, remedy, "how to log in is not found out: %s", f.Reason())
		return remedy
	}
	if len(x.Steps) == 0 {
		return ""
	}
	if !x.Registers {
		remedy = `register one there with the redirect URI http://` + e.Config.Listen + `/oauth/callback, and set its "clientId" in "auth"`
		e.say("login", s.Name, Fail, remedy, "the issuer %s registers no clients by itself, and none is configured", x.Issuer)
		return remedy
	}
	device := ""
	if x.Device {
		device = ", which knows device codes, too"
	}
	e.say("login", s.Name, OK, "", "%s is logged in to at the issuer %s%s", x.Resource, x.Issuer, device)
	return ""
}

// credentials is the folder of the logins; "" where there are none yet, and none
// is to be made.
func (e *examination) credentials() string {
	if _, err := os.Stat(filepath.Join(e.StateDir, "credentials")); err != nil {
		return ""
	}
	return e.StateDir
}

// step is one question of a search, and its answer. The first is to the server,
// which is to refuse it.
func (e *examination) step(server string, step auth.Step, first bool) {
	verdict, answer := Warn, "no answer"
	if step.Status != 0 {
		answer = fmt.Sprintf("%d %s", step.Status, http.StatusText(step.Status))
	}
	if step.Said != "" {
		answer += ": " + step.Said
	}
	if step.Status == http.StatusOK && step.Said == "" || first && step.Status == http.StatusUnauthorized {
		verdict = OK
	}
	e.say("login", server, verdict, "", "asked %s: %s", step.URL, answer)
}

// searchRemedy is what helps where it is not found out how to log in.
func searchRemedy(f *fault.Fault) string {
	switch {
	case errors.Is(f, auth.ErrResourceMismatch):
		return `check "url"; where that is right and the server is to be trusted, set "resource" in "auth"`
	case errors.Is(f, auth.ErrIssuerMismatch):
		return `set "issuer" in "auth" to the one that is meant; another one is not to be trusted`
	case errors.Is(f, auth.ErrNoLogin):
		return `give the key that it wants under "headers"; where it has an issuer, set "authorizationServerMetadata" in "auth" to the address of its metadata`
	case f.Kind == fault.Unavailable, f.Kind == fault.Deadline:
		return "see that the last address above answers, and try again"
	default:
		return "tell whoever runs the server or its issuer: everline does not follow what that says"
	}
}
