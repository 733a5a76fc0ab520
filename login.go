package everline

import (
	"context"
	"net/http"

	"github.com/everline/everline/internal/auth"
)

// A Credential is what a server is shown, as it is now. Its fields are
//
//	Kind            // static (configured headers), oauth, client_credentials, command or none: its String
//	Phase           // none, ok, refreshing, retrying, needs_login or misconfigured: its String
//	Issuer, Subject string
//	Scopes          []string
//	ExpiresAt, RefreshedAt, Since, RetryAt time.Time
//	Cause, Remedy   string
//	Changed         <-chan struct{} // closed as soon as there is a newer one
type Credential = auth.State

// LoginOptions say how a person logs in. The fields are
//
//	Scopes []string // beside those that are known to be needed
//	Device bool     // by a code that is typed on another device
//	Force  bool     // even though there is a credential that works
//	Open   bool     // the URL is opened by Options.Browser, if there is one
type LoginOptions = auth.LoginOptions

// A Login is one on its way. URL is where a person logs in, UserCode what is
// typed there for a device login, and Wait waits for the end. Deliver takes the
// address that the browser ended up at, where that did not reach LoginCallback.
type Login = auth.Login

// Login begins a login to a server, or joins the one that is under way. ctx
// bounds what is needed before the URL is known; the login goes on without it.
func (h *Hub) Login(ctx context.Context, server string, o LoginOptions) (*Login, error) {
	if f := h.closed("login"); f != nil {
		return nil, f
	}
	return h.fleet.Credentials().Login(ctx, server, o)
}

// FindLogin returns a login that is under way; nil if there is none with that ID.
func (h *Hub) FindLogin(id string) *Login { return h.fleet.Credentials().FindLogin(id) }

// Logout forgets the login to a server, after telling its issuer where that can
// be done quickly. all forgets the registration with the issuer as well.
func (h *Hub) Logout(ctx context.Context, server string, all bool) error {
	if f := h.closed("logout"); f != nil {
		return f
	}
	return h.fleet.Credentials().Logout(ctx, server, all)
}

// LoginCallback serves Options.RedirectURI.
func (h *Hub) LoginCallback() http.Handler { return h.fleet.Credentials().Handler() }

// HideTokens takes out of a text what is secret and not configured: tokens, codes
// and the like.
func (h *Hub) HideTokens(text string) string { return h.fleet.Credentials().Hide(text) }
