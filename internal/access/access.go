// Package access says who a client of the endpoint is: an Identity is the answer,
// and travels with the request. The package lets nobody in and keeps nobody out.
package access

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Kind is how somebody showed who they are.
type Kind uint8

const (
	KindAnonymous Kind = iota // not at all
	KindUser                  // as a user of this machine, whom the system vouches for
	KindToken                 // with a token that everline has made
	KindJWT                   // with a token of an issuer
	KindMTLS                  // with a certificate
)

func (k Kind) String() string {
	return [...]string{"anonymous", "user", "token", "jwt", "mtls"}[k]
}

// An Identity is who a client is. It is of the person or program, not of one token
// or connection: a token that is renewed leaves it as it is. It does not change
// once it is made.
type Identity struct {
	kind     Kind
	key      string
	entitled string
	name     string
	labels   []string
	scopes   []string
	policies []string
	expires  time.Time
}

// Anonymous is everybody who has shown nothing. They are all one.
var Anonymous = &Identity{key: "anonymous", entitled: `"anonymous""anonymous"`, name: "anonymous", labels: []string{"anonymous"}}

// local is made when it is first asked for: a guard imports this package, and runs
// nothing of it.
var (
	local  *Identity
	locals sync.Once
)

// Local is the identity of the user that everline runs as.
func Local() *Identity {
	locals.Do(func() { local = User(os.Geteuid()) })
	return local
}

const uidPrefix = "uid:"

// User is a user of this machine.
func User(uid int) *Identity {
	id := strconv.Itoa(uid)
	labels := []string{uidPrefix + id}
	if uid == os.Geteuid() {
		labels = append(labels, "uid:self")
	}
	return made(Identity{kind: KindUser, key: uidPrefix + id, name: "uid " + id, labels: labels})
}

// Token is the holder of a token that everline has made: its id and the name that
// it was given. policy is the one that it was made with, "" for none; expires is
// zero for a token that does not.
func Token(id, name, policy string, expires time.Time) *Identity {
	t := Identity{kind: KindToken, key: "token:" + id, name: name, labels: []string{"token:" + name}, expires: expires}
	if policy != "" {
		t.policies = []string{policy}
	}
	return made(t)
}

// JWT is whom an issuer names as the subject of a token, with the scopes and claims
// of that token.
func JWT(issuer, subject string, scopes []string, claims map[string][]string, expires time.Time) *Identity {
	id := Identity{
		kind: KindJWT, key: "oidc:" + issuer + "|" + subject, name: subject, labels: []string{"sub:" + subject}, scopes: scopes, expires: expires,
	}
	for _, scope := range scopes {
		id.labels = append(id.labels, "scope:"+scope)
	}
	for name, values := range claims {
		for _, value := range values {
			id.labels = append(id.labels, "claim:"+name+"="+value)
		}
	}
	slices.Sort(id.labels)
	return made(id)
}

// MTLS is the holder of a certificate, by the name in it that was asked for.
func MTLS(name string, expires time.Time) *Identity {
	return made(Identity{kind: KindMTLS, key: "mtls:" + name, name: name, labels: []string{"mtls:" + name}, expires: expires})
}

// made completes an identity.
func made(id Identity) *Identity {
	var b []byte
	for _, part := range slices.Concat([]string{id.key}, id.labels, id.policies) {
		b = strconv.AppendQuote(b, part) // a subject may hold anything
	}
	id.entitled = string(b)
	return &id
}

// Kind is how the identity was shown.
func (id *Identity) Kind() Kind { return id.kind }

// Key is one text for one identity, and another for every other one: what belongs
// to an identity is bound to it. It holds no secret.
func (id *Identity) Key() string { return id.key }

// Subject is the Key of an identity that was proven; "" of anybody else's, and of nil.
func (id *Identity) Subject() string {
	if id == nil || id.kind == KindAnonymous {
		return ""
	}
	return id.key
}

// Entitlement is one text for an identity together with all by which a configuration can
// grant it something: it is another one for a token of the same subject with other
// scopes or claims. It holds no secret.
func (id *Identity) Entitlement() string { return id.entitled }

// Name is for people: the name of a token, the subject of a JWT. It comes from
// outside, and two identities may have the same.
func (id *Identity) Name() string { return id.name }

// UID is the number of a user of this machine; false for any other identity.
func (id *Identity) UID() (uid int, ok bool) {
	text, ok := strings.CutPrefix(id.key, uidPrefix)
	uid, err := strconv.Atoi(text)
	return uid, ok && err == nil
}

// Scopes are what the token of a JWT was issued for. They are not to be changed.
func (id *Identity) Scopes() []string { return id.scopes }

// Policies are those that the identity brings along, whatever the configuration
// grants. They are not to be changed.
func (id *Identity) Policies() []string { return id.policies }

// Labels are the names by which a configuration grants something to the identity,
// besides "*": "token:NAME", "sub:SUBJECT", "scope:SCOPE", "claim:NAME=VALUE",
// "mtls:NAME", "uid:N", "uid:self", "anonymous". They are not to be changed.
func (id *Identity) Labels() []string { return id.labels }

// Expires is when what showed the identity is good no more; zero for never.
func (id *Identity) Expires() time.Time { return id.expires }

// Expired tells whether that was before now.
func (id *Identity) Expired(now time.Time) bool {
	return !id.expires.IsZero() && !now.Before(id.expires)
}

// Is tells whether two are the same: by their keys.
func (id *Identity) Is(other *Identity) bool { return id == other || id.key == other.key }

type contextKey struct{}

// With is ctx for a request of an identity.
func With(ctx context.Context, id *Identity) context.Context {
	return context.WithValue(ctx, contextKey{}, id)
}

// From is the identity that With has put into ctx; Anonymous where none was.
func From(ctx context.Context) *Identity {
	if id, ok := ctx.Value(contextKey{}).(*Identity); ok {
		return id
	}
	return Anonymous
}
