package auth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/everline/everline/fault"
)

const (
	grantClient   = "client_credentials"
	grantJWT      = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	grantExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	typeIDJAG     = "urn:ietf:params:oauth:token-type:id-jag"
	typeIDToken   = "urn:ietf:params:oauth:token-type:id_token"
	assertionLife = time.Minute
)

// present gets a token without a person. There is no refresh token: the next
// one is asked for in the same way.
func (s *source) present(ctx context.Context, k key, old *record) (*record, error) {
	found, f := s.discover(ctx)
	if f != nil {
		return nil, f
	}
	if got := s.keyFor(found); got != k {
		return nil, fmt.Errorf("the server has moved to the issuer %s", shownURL(got.Issuer))
	}
	c, ok, err := configuredClient(&s.spec, &found.meta)
	if err != nil {
		return nil, err
	}
	if !ok {
		c.Method = methodNone
	}
	s.m.secrets.learn(c.Secret)
	form, err := s.grant(ctx, found)
	if err != nil {
		return nil, err
	}
	scopes := s.wanted(found, nil)
	if len(scopes) > 0 {
		form.Set("scope", scopeText(scopes))
	}
	tok, err := s.askWithResource(ctx, found.meta.TokenEndpoint, k, c, form)
	if err != nil {
		return nil, err
	}
	next := &record{Key: k, Client: c, TokenURL: found.meta.TokenEndpoint, RevokeURL: found.meta.RevocationEndpoint, Requested: scopes, Granted: scopes}
	if c.Origin == configured { // the configuration has it: another copy would outlive a change
		next.Client.Secret = ""
	}
	next.take(tok)
	next.Refresh = ""
	if old != nil {
		next.Serial = old.Serial
	}
	return next, nil
}

// grant is the form of a kind but for what all have.
func (s *source) grant(ctx context.Context, found *site) (url.Values, error) {
	switch s.kind {
	case ClientCredentials:
		return url.Values{"grant_type": {grantClient}}, nil
	case Enterprise:
		idJAG, err := s.exchange(ctx, found)
		return url.Values{"grant_type": {grantJWT}, "assertion": {idJAG}}, err
	default:
		jwt, err := s.assertion(ctx)
		return url.Values{"grant_type": {grantJWT}, "assertion": {jwt}}, err
	}
}

// assertion is what the platform or the identity provider gave.
func (s *source) assertion(ctx context.Context) (string, error) {
	if s.provider != nil {
		return s.provider.idToken(ctx)
	}
	if s.spec.AssertionFile == "" {
		out, err := s.output(ctx)
		if err != nil {
			return "", err
		}
		return out.access, nil
	}
	text, err := readFile(s.spec.AssertionFile)
	if err != nil {
		return "", fmt.Errorf("the token to present: %w", err)
	}
	jwt := strings.TrimSpace(string(text))
	s.m.secrets.learn(jwt)
	return jwt, nil
}

// idToken is that of the person who has logged in to the identity provider. The
// provider's refresh token gets another, without a browser.
func (s *source) idToken(ctx context.Context) (string, error) {
	for try := 0; ; try++ {
		c, f := s.bind(ctx)
		if f != nil {
			return "", f
		}
		if c == nil || !c.known() {
			if _, f = s.discover(ctx); f == nil { // which says what is wrong, if not that
				f = notSent(fault.Unauthorized, errors.New("nobody has logged in to the identity provider"), loginRemedy(s.spec.Server))
			}
			return "", f
		}
		ticket, f := c.ticket(ctx)
		if f != nil {
			return "", f
		}
		id := c.idToken()
		if end := claimsOf(id).expiry(); id != "" && (end.IsZero() || time.Now().Round(0).Before(end)) {
			return id, nil
		}
		if try > 0 {
			return "", notSent(fault.Unauthorized, errors.New("the identity provider gives no ID token any more"), loginRemedy(s.spec.Server))
		}
		if _, f := c.refuse(ctx, ticket); f != nil {
			return "", f
		}
	}
}

// exchange gets the ID-JAG for the server's issuer from the identity provider
// (SEP-990, RFC 8693).
func (s *source) exchange(ctx context.Context, found *site) (string, error) {
	endpoint := s.spec.IDPTokenURL
	if endpoint == "" {
		h := s.hunt(ctx)
		if err := h.issuer(ctx, s.spec.IDPIssuer); err != nil {
			return "", fmt.Errorf("the identity provider: %w", err)
		}
		endpoint = h.site.meta.TokenEndpoint
	} else if err := s.web.checkEndpoint("IdP token URL", endpoint); err != nil {
		return "", err
	}
	idToken, err := s.assertion(ctx)
	if err != nil {
		return "", err
	}
	form := url.Values{
		"grant_type": {grantExchange}, "requested_token_type": {typeIDJAG}, "audience": {found.meta.Issuer}, "resource": {found.resource},
		"subject_token": {idToken}, "subject_token_type": {typeIDToken},
	}
	if scopes := s.wanted(found, nil); len(scopes) > 0 {
		form.Set("scope", scopeText(scopes))
	}
	idp := client{ID: s.spec.IDPClientID, Secret: s.spec.IDPClientSecret, Method: methodNone}
	if idp.Secret != "" {
		idp.Method = methodPost
	}
	answer, err := s.tokens().post(ctx, endpoint, s.spec.IDPIssuer, idp, form)
	if err != nil {
		return "", fmt.Errorf("the identity provider: %w", err)
	}
	var a struct {
		Token string `json:"access_token"`
		Type  string `json:"issued_token_type"`
	}
	if err := answer.object(&a); err != nil || a.Token == "" {
		return "", &passing{text: "the identity provider gives no token"}
	}
	s.m.secrets.learn(a.Token)
	if a.Type != "" && a.Type != typeIDJAG {
		return "", errors.New("the identity provider gives a token of another type")
	}
	return a.Token, nil
}

// signAssertion proves with a private key who the client is (RFC 7523).
func signAssertion(spec *Spec, clientID, audience string) (string, error) {
	text, err := readFile(spec.PrivateKeyFile)
	if err != nil {
		return "", fmt.Errorf("auth.privateKeyFile: %w", err)
	}
	signer, alg, err := parsePrivateKey(text)
	if err != nil {
		return "", fmt.Errorf("auth.privateKeyFile: %w", err)
	}
	if spec.SigningAlg != "" {
		alg = jose.SignatureAlgorithm(spec.SigningAlg)
	}
	options := (&jose.SignerOptions{}).WithType("JWT")
	jws, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: signer}, options)
	if err != nil {
		return "", fmt.Errorf("auth.signingAlg %q does not fit the key", alg)
	}
	now := time.Now().Round(0)
	payload, err := json.Marshal(map[string]any{
		"iss": clientID, "sub": clientID, "aud": audience, "jti": rand.Text(), "iat": now.Unix(), "exp": now.Add(assertionLife).Unix(),
	})
	if err != nil {
		return "", err
	}
	signed, err := jws.Sign(payload)
	if err != nil {
		return "", errors.New("auth.privateKeyFile: it cannot sign")
	}
	return signed.CompactSerialize()
}

// parsePrivateKey reads PEM of any of the usual forms.
func parsePrivateKey(text []byte) (crypto.Signer, jose.SignatureAlgorithm, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, "", errors.New("it is no PEM")
	}
	var found any
	for _, parse := range []func([]byte) (any, error){
		x509.ParsePKCS8PrivateKey,
		func(der []byte) (any, error) { return x509.ParseECPrivateKey(der) },
		func(der []byte) (any, error) { return x509.ParsePKCS1PrivateKey(der) },
	} {
		if one, err := parse(block.Bytes); err == nil {
			found = one
			break
		}
	}
	switch k := found.(type) {
	case *ecdsa.PrivateKey:
		if k.Curve == elliptic.P384() {
			return k, jose.ES384, nil
		}
		return k, jose.ES256, nil
	case *rsa.PrivateKey:
		return k, jose.RS256, nil
	case ed25519.PrivateKey:
		return k, jose.EdDSA, nil
	default:
		return nil, "", errors.New("it is no private key of the types EC, RSA or Ed25519")
	}
}
