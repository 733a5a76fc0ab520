package admin

import (
	"time"

	"github.com/everline/everline/internal/auth"
)

// Auth is how the credential is that everline shows to a server.
type Auth struct {
	Kind        string     `json:"kind"`        // none, static, oauth, client_credentials, command, enterprise or workload
	State       string     `json:"state"`       // none, ok, refreshing, retrying, needs_login or misconfigured
	Issuer      *string    `json:"issuer"`      // who issues the tokens
	Subject     *string    `json:"subject"`     // whose login it is, where the token says so
	Scopes      []string   `json:"scopes"`      // granted
	ExpiresAt   *time.Time `json:"expiresAt"`   // of the token; it is renewed before, if it can be
	RefreshedAt *time.Time `json:"refreshedAt"` // when the token was issued
	Since       *time.Time `json:"since"`       // when the state began, in this process
	RetryAt     *time.Time `json:"retryAt"`     // of the next refresh, after one that failed for now
	Cause       *string    `json:"cause"`
	Remedy      *string    `json:"remedy"`
}

// ShapeAuth turns the state of a credential into JSON.
func ShapeAuth(s *auth.State, hide func(string) string) Auth {
	return Auth{
		Kind: s.Kind.String(), State: s.Phase.String(), Issuer: known(hide(s.Issuer)), Subject: known(hide(s.Subject)), Scopes: hideAll(s.Scopes, hide),
		ExpiresAt: knownTime(s.ExpiresAt), RefreshedAt: knownTime(s.RefreshedAt), Since: knownTime(s.Since), RetryAt: knownTime(s.RetryAt),
		Cause: known(hide(s.Cause)), Remedy: known(hide(s.Remedy)),
	}
}
