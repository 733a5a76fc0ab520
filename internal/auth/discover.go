package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

const (
	protectedResource   = "/.well-known/oauth-protected-resource"
	authorizationServer = "/.well-known/oauth-authorization-server"
	openIDConfiguration = "/.well-known/openid-configuration"
)

// A challenge is what a refusal says about how to get in.
type challenge struct {
	metadata string // URL of the resource's metadata
	scopes   []string
	code     string // "invalid_token", "insufficient_scope"; "" if it names none
	text     string
}

// parseChallenge reads WWW-Authenticate fields. Those that break the grammar are
// searched for what matters: an empty realm must not hide the rest.
func parseChallenge(fields []string) challenge {
	params := map[string]string{}
	if all, err := oauthex.ParseWWWAuthenticate(fields); err == nil {
		for _, c := range all {
			if c.Scheme != "bearer" && c.Scheme != "dpop" {
				continue
			}
			for name, value := range c.Params {
				if _, taken := params[name]; !taken {
					params[name] = value
				}
			}
		}
	} else {
		for _, field := range fields {
			scanChallenge(field, params)
		}
	}
	return challenge{
		metadata: params["resource_metadata"], scopes: strings.Fields(params["scope"]),
		code: params["error"], text: params["error_description"],
	}
}

// scanChallenge finds name=value pairs in a field behind Bearer or DPoP,
// whatever stands between them.
func scanChallenge(field string, params map[string]string) {
	lower := strings.ToLower(field)
	start := strings.Index(lower, "bearer")
	if start < 0 {
		start = strings.Index(lower, "dpop")
	}
	if start < 0 {
		return
	}
	for _, name := range []string{"resource_metadata", "scope", "error", "error_description"} {
		for from := start; ; {
			i := strings.Index(lower[from:], name+"=")
			if i < 0 {
				break
			}
			at := from + i
			from = at + len(name) + 1
			if at > 0 && (lower[at-1] == '_' || lower[at-1] >= 'a' && lower[at-1] <= 'z') {
				continue // the end of another name
			}
			if _, taken := params[name]; !taken {
				params[name] = scanValue(field[from:])
			}
			break
		}
	}
}

func scanValue(text string) string {
	if quoted, ok := strings.CutPrefix(text, `"`); ok {
		value, _, _ := strings.Cut(quoted, `"`)
		return value
	}
	if end := strings.IndexAny(text, " \t,\""); end >= 0 {
		return text[:end]
	}
	return text
}

// metadata is an issuer's. The SDK's type lacks the device endpoint.
type metadata struct {
	oauthex.AuthServerMeta
	DeviceEndpoint string `json:"device_authorization_endpoint"`
}

// A Step is one question of a discovery, and how it was answered.
type Step struct {
	URL    string
	Status int // 0 if no answer came
	Said   string
}

// A site is what discovery found out about a server.
type site struct {
	resource  string // as the server writes it; never rewritten
	published bool   // by the server itself
	meta      metadata
	scopes    []string // that the resource says there are
	warnings  []string
	found     time.Time
}

// Reasons why a discovery fails for good, for errors.Is.
var (
	// ErrResourceMismatch: the server's metadata is that of another resource.
	ErrResourceMismatch = errors.New("its metadata is of another resource")
	// ErrIssuerMismatch: an issuer's metadata is that of another issuer.
	ErrIssuerMismatch = errors.New("its metadata is of another issuer")
	// ErrNoLogin: the server publishes no way to log in.
	ErrNoLogin = errors.New("it publishes no way to log in")
	errAbsent  = errors.New("absent")
)

// A hunt is one discovery.
type hunt struct {
	web       *web
	spec      *Spec
	challenge challenge
	unmet     bool // the server has refused nothing so far, and is asked first what it wants
	// oldEndpoints are to be tried where the server publishes nothing.
	oldEndpoints bool
	known        func(issuer string) bool // we are registered or logged in there
	secrets      *secrets
	steps        []Step
	site         site
}

// run follows a server's words to the issuer's metadata. An error of the type
// *passing says that it may succeed later; any other is for good.
func (h *hunt) run(ctx context.Context) error {
	h.site.found = time.Now().Round(0)
	if h.spec.provider {
		h.site.resource = h.spec.Issuer
		return h.issuer(ctx, h.spec.Issuer)
	}
	if h.spec.MetadataURL != "" {
		return h.given(ctx)
	}
	if h.unmet {
		h.knock(ctx)
	}
	prm, err := h.resourceMetadata(ctx)
	switch {
	case errors.Is(err, errAbsent):
		return h.old(ctx)
	case err != nil:
		return err
	}
	h.site.resource, h.site.published, h.site.scopes = prm.Resource, true, prm.ScopesSupported
	return h.firstIssuer(ctx, prm.AuthorizationServers)
}

// ping is what any server may refuse to those who are not logged in, and nothing
// that an open one would do something for.
const ping = `{"jsonrpc":"2.0","id":0,"method":"ping"}`

// knock asks the server itself for its challenge, which may be the only place that
// names its metadata. What else comes of it decides nothing.
func (h *hunt) knock(ctx context.Context) {
	step := Step{URL: shownURL(h.spec.URL)}
	status, fields, err := h.web.knock(ctx, h.spec.URL, ping)
	step.Status = status
	switch ch := parseChallenge(fields); {
	case err != nil:
		step.Said = h.secrets.words(err.Error())
	case status != http.StatusUnauthorized:
		step.Said = "it lets in without a login"
	case ch.metadata == "":
		step.Said = "it does not name its metadata"
	default:
		h.challenge, step.Said = ch, "its metadata is at "+shownURL(h.secrets.words(ch.metadata))
	}
	h.steps = append(h.steps, step)
}

// itself is the server as a resource, where it does not say what it is. A query
// may be a secret, and is no part of what a token is for.
func (h *hunt) itself() string {
	plain, _, _ := strings.Cut(h.spec.URL, "?")
	return cmp.Or(h.spec.Resource, plain)
}

// given reads the issuer's metadata from where the configuration says.
func (h *hunt) given(ctx context.Context) error {
	h.site.resource = h.itself()
	meta, err := h.fetchMeta(ctx, h.spec.MetadataURL)
	if errors.Is(err, errAbsent) {
		return fmt.Errorf("%w: nothing is at %s", ErrNoLogin, shownURL(h.spec.MetadataURL))
	}
	if err != nil {
		return err
	}
	return h.accept(meta, cmp.Or(h.spec.Issuer, meta.Issuer))
}

// resourceMetadata asks where the challenge says, then at the server's path,
// then at its root. Trouble on the way is no absence: it ends the search, and
// nobody is sent to a place that was made up.
func (h *hunt) resourceMetadata(ctx context.Context) (*oauthex.ProtectedResourceMetadata, error) {
	var all []string
	if named := h.challenge.metadata; named != "" {
		if err := h.checkMetadataURL(named); err != nil {
			return nil, err
		}
		all = append(all, named)
	}
	base := origin(h.web.server)
	if path := strings.TrimSuffix(h.web.server.EscapedPath(), "/"); path != "" {
		all = append(all, base+protectedResource+path)
	}
	all = append(all, base+protectedResource)
	definite := true
	for i, u := range all {
		if slices.Contains(all[:i], u) {
			continue
		}
		answer, err := h.ask(ctx, u)
		if err != nil {
			return nil, err
		}
		var prm oauthex.ProtectedResourceMetadata
		switch {
		case answer.status != http.StatusOK:
			gone := answer.status == http.StatusNotFound || answer.status == http.StatusMethodNotAllowed || answer.status == http.StatusGone
			definite = definite && gone
			continue
		case answer.object(&prm) != nil || prm.Resource == "" && len(prm.AuthorizationServers) == 0:
			h.say("no metadata") // a page for everything
			continue
		}
		return &prm, h.checkResource(prm.Resource)
	}
	if !definite {
		return nil, fmt.Errorf("%w: its metadata cannot be read; set auth.authorizationServerMetadata if it has none", ErrNoLogin)
	}
	return nil, errAbsent
}

// checkMetadataURL: a server may name its own host; elsewhere only what is
// public and https.
func (h *hunt) checkMetadataURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.User != nil || u.Host == "":
		return fmt.Errorf("%w: its resource_metadata is no usable URL", ErrNoLogin)
	case origin(u) == origin(h.web.server) && (u.Scheme == "https" || u.Scheme == "http"):
		return nil
	default:
		return h.web.checkEndpoint("resource_metadata", raw)
	}
}

// checkResource wants the resource to be the server, or a part of the site that
// the server is in. A token for anything else could be used against others.
func (h *hunt) checkResource(resource string) error {
	if h.spec.Resource != "" {
		h.site.resource = h.spec.Resource
		return nil
	}
	r, err := url.Parse(resource)
	if err != nil || r.Host == "" || origin(r) != origin(h.web.server) {
		return fmt.Errorf("%w: %s", ErrResourceMismatch, h.secrets.words(resource))
	}
	ours, theirs := strings.TrimSuffix(h.web.server.EscapedPath(), "/"), strings.TrimSuffix(r.EscapedPath(), "/")
	switch {
	case ours == theirs && (r.RawQuery == "" || r.RawQuery == h.web.server.RawQuery):
		return nil
	case r.RawQuery == "" && strings.HasPrefix(ours, theirs+"/"):
		h.site.warnings = append(h.site.warnings, "its metadata is for all of "+shownURL(resource))
		return nil
	default:
		return fmt.Errorf("%w: %s", ErrResourceMismatch, h.secrets.words(resource))
	}
}

// old is what revisions until 2025-03-26 had: the server is its own issuer.
func (h *hunt) old(ctx context.Context) error {
	h.site.resource = h.itself()
	base := origin(h.web.server)
	meta, err := h.fetchMeta(ctx, base+authorizationServer)
	switch {
	case err == nil:
		return h.accept(meta, cmp.Or(h.spec.Issuer, base))
	case !errors.Is(err, errAbsent):
		return err
	case h.spec.Issuer != "":
		return h.issuer(ctx, h.spec.Issuer)
	case h.oldEndpoints:
		h.site.warnings = append(h.site.warnings, "it publishes nothing about logins: the endpoints are those of revision 2025-03-26")
		meta = &metadata{}
		meta.Issuer, meta.AuthorizationEndpoint, meta.TokenEndpoint, meta.RegistrationEndpoint = base, base+"/authorize", base+"/token", base+"/register"
		meta.CodeChallengeMethodsSupported = []string{"S256"}
		return h.accept(meta, base)
	default:
		return ErrNoLogin
	}
}

// firstIssuer takes the configured issuer, else one that knows us, else the
// first that answers.
func (h *hunt) firstIssuer(ctx context.Context, all []string) error {
	switch {
	case len(all) == 0:
		return h.old(ctx)
	case h.spec.Issuer != "":
		i := slices.IndexFunc(all, func(one string) bool { return sameIssuer(one, h.spec.Issuer) })
		if i < 0 {
			return fmt.Errorf("%w: %s is configured, and it names %s", ErrIssuerMismatch, h.spec.Issuer, h.secrets.words(strings.Join(all, ", ")))
		}
		return h.issuer(ctx, all[i])
	case h.spec.ClientID != "" && len(all) > 1:
		return fmt.Errorf("%w: it names several issuers, so auth.clientId needs auth.issuer: one of %s", ErrIssuerMismatch, h.secrets.words(strings.Join(all, ", ")))
	}
	if i := slices.IndexFunc(all, h.known); i >= 0 {
		if err := h.issuer(ctx, all[i]); err == nil || forNow(err) { // that it is away is no reason to log in elsewhere
			return err
		}
	}
	var first error
	for _, one := range all[:min(len(all), 5)] {
		err := h.issuer(ctx, one)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if first == nil {
			first = err
		}
	}
	return first
}

func sameIssuer(a, b string) bool { return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/") }

// issuer reads an issuer's metadata at each place where it may be.
func (h *hunt) issuer(ctx context.Context, issuer string) error {
	if err := h.web.checkEndpoint("issuer", issuer); err != nil {
		return err
	}
	var lone *metadata // that differs by a slash at the end
	var mismatch error
	for _, u := range issuerURLs(issuer) {
		meta, err := h.fetchMeta(ctx, u)
		switch {
		case errors.Is(err, errAbsent):
		case err != nil:
			return err
		case meta.Issuer == issuer:
			return h.accept(meta, issuer)
		case sameIssuer(meta.Issuer, issuer):
			lone = meta
		default:
			mismatch = h.otherIssuer(meta, issuer)
		}
	}
	switch {
	case lone != nil:
		h.site.warnings = append(h.site.warnings, "the issuer "+shownURL(issuer)+" has another slash at its end in its metadata")
		return h.accept(lone, issuer)
	case mismatch != nil:
		return mismatch
	default:
		return fmt.Errorf("%w: the issuer %s publishes no metadata", ErrNoLogin, shownURL(issuer))
	}
}

func (h *hunt) otherIssuer(meta *metadata, issuer string) error {
	h.say("it is of " + h.secrets.words(meta.Issuer))
	return fmt.Errorf("%w: %s says that it is %s", ErrIssuerMismatch, shownURL(issuer), h.secrets.words(meta.Issuer))
}

// issuerURLs are in the order of MCP: RFC 8414 and OpenID with the path
// inserted, then OpenID with the path first.
func issuerURLs(issuer string) []string {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil
	}
	base := u.Scheme + "://" + u.Host
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	if path == "" {
		return []string{base + authorizationServer, base + openIDConfiguration}
	}
	return []string{base + authorizationServer + path, base + openIDConfiguration + path, base + path + openIDConfiguration}
}

// fetchMeta reads one place. What is no metadata, such as the page that answers
// every URL of a site, is absent; trouble is not.
func (h *hunt) fetchMeta(ctx context.Context, u string) (*metadata, error) {
	if err := h.web.checkEndpoint("metadata URL", u); err != nil {
		if p, _ := url.Parse(u); p == nil || origin(p) != origin(h.web.server) {
			return nil, err
		}
	}
	answer, err := h.ask(ctx, u)
	if err != nil {
		return nil, err
	}
	meta := &metadata{}
	if answer.status != http.StatusOK || !answer.json || answer.object(meta) != nil || meta.Issuer == "" {
		if answer.status == http.StatusOK {
			h.say("no metadata")
		}
		return nil, errAbsent
	}
	return meta, nil
}

// ask asks one URL, and takes note of how it went. Its error is a *passing,
// except where an address is not allowed.
func (h *hunt) ask(ctx context.Context, u string) (*reply, error) {
	answer, err := h.web.get(ctx, u)
	step := Step{URL: shownURL(u)}
	var b *blocked
	switch {
	case errors.As(err, &b):
		step.Said = b.Error()
	case err != nil:
		step.Said = h.secrets.words(err.Error())
		err = &passing{text: step.URL + ": " + step.Said}
	case answer.status >= 500 || answer.status == http.StatusTooManyRequests:
		step.Status = answer.status
		err = &passing{text: fmt.Sprintf("%s answers %d", step.URL, answer.status), after: answer.after}
	default:
		step.Status = answer.status
	}
	h.steps = append(h.steps, step)
	return answer, err
}

// say adds to the last step what was made of its answer.
func (h *hunt) say(text string) { h.steps[len(h.steps)-1].Said = text }

// accept judges an issuer's metadata. A slash at the end of the issuer may
// differ.
func (h *hunt) accept(meta *metadata, issuer string) error {
	if !sameIssuer(meta.Issuer, issuer) {
		return h.otherIssuer(meta, issuer)
	}
	for _, e := range [][2]string{
		{"authorization_endpoint", meta.AuthorizationEndpoint},
		{"token_endpoint", meta.TokenEndpoint},
		{"registration_endpoint", meta.RegistrationEndpoint},
		{"device_authorization_endpoint", meta.DeviceEndpoint},
		{"revocation_endpoint", meta.RevocationEndpoint},
	} {
		if e[1] == "" {
			continue
		}
		if err := h.web.checkEndpoint(e[0], e[1]); err != nil {
			return fmt.Errorf("the issuer %s cannot be used: %w", shownURL(issuer), err)
		}
	}
	if meta.TokenEndpoint == "" {
		return fmt.Errorf("the issuer %s cannot be used: it has no token_endpoint", shownURL(issuer))
	}
	h.site.meta = *meta
	if h.spec.Resource != "" {
		h.site.resource = h.spec.Resource
	}
	return nil
}
