package auth

import (
	"crypto/tls"
	"net/url"
	"strings"
	"time"

	"github.com/everline/everline/internal/tlsfiles"
)

// A Kind is the sort of credential that a server wants.
type Kind uint8

const (
	// Auto is Static where there is a configured header, and else OAuth as soon
	// as the server asks for it.
	Auto Kind = iota
	// None: whatever the server asks for, it gets nothing.
	None
	// Static is an Authorization header of the configuration.
	Static
	// OAuth is a login of a person: code and PKCE, or a device code.
	OAuth
	// ClientCredentials is a login of the program itself (SEP-1046).
	ClientCredentials
	// Command is a token that a command prints.
	Command
	// Enterprise exchanges the token of a company's identity provider (SEP-990).
	Enterprise
	// Workload presents a JWT of the platform that everline runs on (SEP-1933).
	Workload
)

var kindNames = [...]string{"auto", "none", "static", "oauth", "client_credentials", "command", "enterprise", "workload"}

// String returns the kind's name in the configuration and in status.
func (k Kind) String() string { return kindNames[k] }

// ParseKind reads a kind as it is configured; "" is auto. "static" cannot be
// configured: it follows from a header.
func ParseKind(name string) (Kind, bool) {
	for k, n := range kindNames {
		if n == name && Kind(k) != Static {
			return Kind(k), true
		}
	}
	return Auto, name == ""
}

// A Spec is what is configured of one server, and where.
type Spec struct {
	Server string // its name, for faults and remedies
	URL    string
	Place  string // "FILE:LINE" of its entry, for remedies; "" if unknown
	Kind   Kind
	// Static tells that a header Authorization is configured. It is sent by the
	// transport; this package only says what a refusal of it means.
	Static bool

	// A client that was registered by hand.
	ClientID     string
	ClientSecret string
	// ClientSecretFile is read each time the secret is needed; "": ClientSecret.
	ClientSecretFile string
	PrivateKeyFile   string // PEM, for private_key_jwt
	SigningAlg       string // ES256, RS256 or EdDSA; "": by the key
	TokenAuth        string // basic, post, none, private_key_jwt; "": by metadata

	Issuer      string // pins the authorization server; "": discovered
	MetadataURL string // used in place of discovery
	ClientIDURL string // a hosted client ID metadata document

	Scopes, DropScopes []string
	Resource           string // "": discovered
	ResourceParam      string // always, never; "": auto

	// RedirectURI and CallbackPort are for clients registered by hand.
	RedirectURI  string
	CallbackPort int

	// Principal is whose login this is, where each identity has its own; "" is
	// one for all.
	Principal string

	// Command and Args print a token, or what Enterprise and Workload present.
	Command      string
	Args         []string
	RefreshAfter time.Duration // of a printed token without a lifetime; 0: until it is refused

	// AssertionFile has what Enterprise (an ID token) and Workload (a JWT)
	// present; "": Command prints it, and without that a person logs in to the
	// identity provider.
	AssertionFile string
	// The identity provider's side of Enterprise. IDPTokenURL may be discovered
	// from IDPIssuer.
	IDPIssuer, IDPTokenURL, IDPClientID, IDPClientSecret string

	AllowPrivate *bool          // of addresses that the server names; nil: if the server itself is private
	TLS          *tls.Config    // what connections begin with; nil: the system's
	Files        tlsfiles.Files // of the server's TLS; the zero value is TLS alone
	// OldEndpoints allows the endpoints that revisions until 2025-03-26 made up
	// where a server publishes nothing, before it is known to speak one of these.
	OldEndpoints bool

	provider bool // this is no server, but the identity provider of one
}

// atProvider is the login to the identity provider; false if what to present
// comes from a file or a command.
func (s *Spec) atProvider() (Spec, bool) {
	if s.Kind != Enterprise || s.AssertionFile != "" || s.Command != "" || s.IDPIssuer == "" || s.IDPClientID == "" {
		return Spec{}, false
	}
	return Spec{
		Server: s.Server, URL: s.IDPIssuer, Place: s.Place, Kind: OAuth, Issuer: s.IDPIssuer, ClientID: s.IDPClientID, ClientSecret: s.IDPClientSecret,
		Scopes: []string{"openid"}, ResourceParam: "never", RedirectURI: s.RedirectURI, CallbackPort: s.CallbackPort, Principal: s.Principal,
		AllowPrivate: s.AllowPrivate, TLS: s.TLS, Files: s.Files, provider: true,
	}, true
}

// kind is what Auto comes to.
func (s *Spec) kind() Kind {
	switch {
	case s.Kind != Auto:
		return s.Kind
	case s.Static:
		return Static
	default:
		return OAuth
	}
}

// stored tells whether tokens of this kind are worth keeping.
func (k Kind) stored() bool { return k != None && k != Static && k != Command }

// machine tells whether a token can be had without a person.
func (k Kind) machine() bool {
	return k == ClientCredentials || k == Command || k == Enterprise || k == Workload
}

// principal is the part of the key that is not discovered. A client that was
// registered by hand has logins of its own: another entry for the same resource
// must not use them.
func (s *Spec) principal() string {
	switch s.Kind {
	case Auto, OAuth:
		if s.ClientID == "" {
			return s.Principal
		}
		return s.Principal + "|client:" + s.ClientID
	default:
		return s.Principal + "|" + s.Kind.String() + ":" + s.ClientID
	}
}

// place is the spec's field in the store's bindings.
func (s *Spec) place() string {
	return strings.Join([]string{normalURL(s.URL), s.principal(), s.Issuer, s.Resource}, "\x00")
}

// withoutUser is a URL without what lets somebody in by it, and without its
// fragment; user tells whether there was something. The rest stays as written.
func withoutUser(raw string) (plain string, user bool) {
	plain, _, _ = strings.Cut(raw, "#")
	scheme, rest, ok := strings.Cut(plain, "://")
	if !ok {
		return plain, false
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	if i := strings.LastIndexByte(rest[:end], '@'); i >= 0 {
		return scheme + "://" + rest[i+1:], true
	}
	return plain, false
}

// normalURL folds what makes no difference to where a URL leads: the case of
// scheme and host, a default port, and one slash at the end. The query stays.
func normalURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return raw
	}
	text := origin(u) + strings.TrimSuffix(u.EscapedPath(), "/")
	if u.RawQuery != "" {
		text += "?" + u.RawQuery
	}
	return text
}

// origin is scheme, host and port, with the default port left out.
func origin(u *url.URL) string {
	scheme, host, port := strings.ToLower(u.Scheme), strings.ToLower(u.Hostname()), u.Port()
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port != "" && (scheme != "https" || port != "443") && (scheme != "http" || port != "80") {
		host += ":" + port
	}
	return scheme + "://" + host
}
