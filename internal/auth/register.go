package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// errNoClient: nothing of what is configured, and nothing that the issuer
// offers, makes everline a client.
var errNoClient = errors.New("the issuer registers no clients by itself, and none is configured")

// configuredClient is the client of the configuration; false if there is none.
func configuredClient(spec *Spec, meta *metadata) (client, bool, error) {
	if spec.ClientID == "" {
		return client{}, false, nil
	}
	secret := spec.ClientSecret
	if spec.ClientSecretFile != "" {
		text, err := readCapped(spec.ClientSecretFile)
		if err != nil {
			return client{}, false, fmt.Errorf("auth.clientSecretFile: %w", err)
		}
		secret = strings.TrimSpace(string(text))
	}
	c := client{ID: spec.ClientID, Secret: secret, Method: methodNamed(spec.TokenAuth), Origin: configured}
	if c.Method == "" {
		c.Method = methodFor(secret != "", meta.TokenEndpointAuthMethodsSupported)
		if spec.PrivateKeyFile != "" {
			c.Method = methodJWT
		}
	}
	return c, true, nil
}

// An enroller makes everline a client of an issuer, in the order that MCP wants:
// the configured client, a hosted document, a registration.
type enroller struct {
	web     *web
	spec    *Spec
	secrets *secrets
	name    string // of the client, as people see it
}

// enroll returns the client for a login, and the redirect URI that it is to use.
// kept is what was registered before; a new registration is returned to be kept.
func (e *enroller) enroll(ctx context.Context, meta *metadata, kept *registration, redirect string) (client, string, *registration, error) {
	if c, ok, err := configuredClient(e.spec, meta); ok || err != nil {
		e.secrets.learn(c.Secret)
		return c, redirect, nil, err
	}
	now, alt := time.Now().Round(0), localhost(redirect)
	switch {
	case meta.ClientIDMetadataDocumentSupported && e.spec.ClientIDURL != "":
		return client{ID: e.spec.ClientIDURL, Method: methodNone, Origin: document}, redirect, nil, nil
	case kept.usable(redirect, now):
		return kept.Client, redirect, nil, nil
	case kept.usable(alt, now):
		return kept.Client, alt, nil, nil
	case meta.RegistrationEndpoint == "":
		return client{}, "", nil, errNoClient
	}
	r, err := e.register(ctx, meta, redirect)
	var no *refusal
	if alt != redirect && errors.As(err, &no) && no.status == http.StatusBadRequest { // some know no loopback but this one
		if second, failed := e.register(ctx, meta, alt); failed == nil {
			r, err = second, nil
		}
	}
	if err != nil {
		return client{}, "", nil, err
	}
	return r.Client, r.Redirects[0], r, nil
}

// localhost is a loopback URI with the name in place of the address.
func localhost(redirect string) string {
	u, err := url.Parse(redirect)
	if err != nil || u.Hostname() != "127.0.0.1" {
		return redirect
	}
	u.Host = strings.Replace(u.Host, "127.0.0.1", "localhost", 1)
	return u.String()
}

// register asks for a client of our own (RFC 7591). The SDK's function has the
// whole answer in its errors, which may be a secret.
func (e *enroller) register(ctx context.Context, meta *metadata, redirect string) (*registration, error) {
	method := methodNone
	if all := meta.TokenEndpointAuthMethodsSupported; len(all) > 0 && !slices.Contains(all, methodNone) {
		method = methodFor(true, all)
	}
	grants := []string{"authorization_code", "refresh_token"}
	if meta.DeviceEndpoint != "" { // some refuse a client that has not said so
		grants = append(grants, grantDevice)
	}
	body, err := json.Marshal(oauthex.ClientRegistrationMetadata{
		ClientName: e.name, RedirectURIs: []string{redirect}, TokenEndpointAuthMethod: method, ApplicationType: "native",
		GrantTypes: grants, ResponseTypes: []string{"code"}, Scope: strings.Join(e.spec.Scopes, " "),
	})
	if err != nil {
		return nil, err
	}
	answer, err := e.web.post(ctx, meta.RegistrationEndpoint, "application/json", string(body), nil)
	if err != nil {
		return nil, &passing{text: shownURL(meta.RegistrationEndpoint) + ": " + e.secrets.words(err.Error())}
	}
	var a struct {
		ID      string   `json:"client_id"`
		Secret  string   `json:"client_secret"`
		Expires float64  `json:"client_secret_expires_at"`
		Method  string   `json:"token_endpoint_auth_method"`
		URIs    []string `json:"redirect_uris"`
		Code    string   `json:"error"`
		Text    string   `json:"error_description"`
	}
	err = answer.object(&a)
	e.secrets.learn(a.Secret)
	switch {
	case answer.status >= 500 || answer.status == http.StatusTooManyRequests:
		return nil, &passing{text: fmt.Sprintf("%s answers %d", shownURL(meta.RegistrationEndpoint), answer.status), after: answer.after}
	case answer.status != http.StatusOK && answer.status != http.StatusCreated:
		code := a.Code
		if code == "" {
			code = fmt.Sprintf("%d to the registration", answer.status)
		}
		return nil, &refusal{code: e.secrets.words(code), text: e.secrets.words(a.Text), status: answer.status}
	case err != nil || a.ID == "":
		return nil, &passing{text: fmt.Sprintf("%s answers %d, and no client", shownURL(meta.RegistrationEndpoint), answer.status)}
	}
	r := &registration{Redirects: []string{redirect}, Registered: time.Now().Round(0)}
	r.Client = client{ID: a.ID, Secret: a.Secret, Method: a.Method, Origin: dynamic}
	if r.Client.Method == "" {
		r.Client.Method = method
		if a.Secret == "" {
			r.Client.Method = methodNone
		}
	}
	if a.Secret != "" && a.Expires > 0 {
		r.SecretExpires = time.Unix(int64(a.Expires), 0)
	}
	return r, nil
}

// clientName is how people see everline at the issuer.
func clientName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		return "everline"
	}
	return "everline (" + host + ")"
}
