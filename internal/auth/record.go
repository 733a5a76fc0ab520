package auth

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"
)

// A key names a credential: for what, from whom, and for whom. The resource is
// part of it because a token for one is refused by another, and the name of the
// server is not: two names of one resource are one login.
type key struct {
	Resource  string `json:"resource"`
	Issuer    string `json:"issuer"`
	Principal string `json:"principal,omitempty"`
}

// id is the key as the name of a file, and of a field in the store.
func (k key) id() string {
	sum := sha256.Sum256([]byte(k.Resource + "\x00" + k.Issuer + "\x00" + k.Principal))
	return hex.EncodeToString(sum[:12])
}

// A record is one credential as it is stored. It is never changed: what is new
// is another record with a higher serial.
type record struct {
	Key    key    `json:"key"`
	Serial uint64 `json:"serial"`

	Access    string    `json:"access,omitempty"`
	Refresh   string    `json:"refresh,omitempty"`
	ID        string    `json:"id,omitempty"` // an ID token; valid for an identity provider
	Issued    time.Time `json:"issued,omitzero"`
	Expiry    time.Time `json:"expiry,omitzero"` // zero: unknown, used until it is refused
	Requested []string  `json:"scopesRequested,omitempty"`
	Granted   []string  `json:"scopesGranted,omitempty"`
	Subject   string    `json:"subject,omitempty"`

	// Client and the endpoints are those that the token came from: a refresh
	// goes there and nowhere else, whatever is discovered later.
	Client     client    `json:"client"`
	TokenURL   string    `json:"tokenUrl,omitempty"`
	RevokeURL  string    `json:"revokeUrl,omitempty"`
	DeadSince  time.Time `json:"deadSince,omitzero"` // the issuer refused a refresh for good
	Cause      string    `json:"cause,omitempty"`    // its words; valid while DeadSince is set
	UnusedFrom time.Time `json:"unusedFrom,omitzero"`
}

func (r *record) dead() bool { return r != nil && !r.DeadSince.IsZero() }

// A client is who everline is to an issuer.
type client struct {
	ID     string `json:"id"`
	Secret string `json:"secret,omitempty"`
	Method string `json:"method,omitempty"` // of authentication at the token endpoint
	// Origin says how it came to be, which decides what can be done if the
	// issuer refuses it.
	Origin string `json:"origin,omitempty"`
}

// Origins of a client.
const (
	configured = "configured"
	document   = "document" // a client ID metadata document
	dynamic    = "dynamic"  // registered by us
)

// A registration is a client that we registered with an issuer. It is used with
// that issuer alone.
type registration struct {
	Client        client    `json:"client"`
	Redirects     []string  `json:"redirects,omitempty"`
	SecretExpires time.Time `json:"secretExpires,omitzero"`
	Registered    time.Time `json:"registered,omitzero"`
	Dead          bool      `json:"dead,omitempty"` // refused: the next login registers anew
}

// usable tells whether a login with this redirect URI can use the registration.
func (r *registration) usable(redirect string, now time.Time) bool {
	return r != nil && !r.Dead && slices.Contains(r.Redirects, redirect) &&
		(r.SecretExpires.IsZero() || now.Before(r.SecretExpires))
}

// data is all that the store holds.
type data struct {
	Serial        uint64                  `json:"serial"` // of the last change
	Credentials   map[string]record       `json:"credentials,omitempty"`
	Registrations map[string]registration `json:"registrations,omitempty"` // by issuer
	// Bindings say which credential a server's URL uses, by place, so that a
	// restart needs no discovery.
	Bindings map[string]key `json:"bindings,omitempty"`
	// NoResource are issuers that refuse the resource parameter.
	NoResource map[string]bool `json:"noResource,omitempty"`
	// Asked are the scopes ever wanted of a credential, those that no login has
	// been made for included: a step-up survives a restart.
	Asked map[string][]string `json:"asked,omitempty"`
}

func newData() *data {
	d := &data{}
	d.fill()
	return d
}

func (d *data) fill() {
	fillMap(&d.Credentials)
	fillMap(&d.Registrations)
	fillMap(&d.Bindings)
	fillMap(&d.NoResource)
	fillMap(&d.Asked)
}

func fillMap[V any](m *map[string]V) {
	if *m == nil {
		*m = map[string]V{}
	}
}

// record returns the credential of a key; nil if there is none.
func (d *data) record(k key) *record {
	if r, ok := d.Credentials[k.id()]; ok {
		return &r
	}
	return nil
}

// put stores a record under the serial of the change that is being made.
func (d *data) put(r *record) {
	r.Serial = d.Serial
	d.Credentials[r.Key.id()] = *r
}

// union returns all scopes of the lists, each once, in the order in which they
// were first named.
func union(lists ...[]string) []string {
	var all []string
	for _, list := range lists {
		for _, s := range list {
			if s != "" && !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	return all
}

// scopeSet is a name for a set of scopes, in whatever order.
func scopeSet(scopes []string) string {
	sorted := slices.Clone(scopes)
	slices.SortFunc(sorted, cmp.Compare[string])
	return strings.Join(slices.Compact(sorted), " ")
}
