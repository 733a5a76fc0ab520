// Package tokens keeps the static tokens that clients show to the endpoint: their
// hashes, in one file of the state folder. A token itself is nowhere but in the
// hand of who made it. What its holder may do is not decided here.
package tokens

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"time"
)

// Prefix begins every token, so that scanners for secrets know one.
const Prefix = "evl_"

const (
	idLength     = 8  // characters of base32: 40 bits
	secretLength = 43 // characters of base64url: 256 bits

	// Overlap is how long the token before a rotated one is still good.
	Overlap = 24 * time.Hour
)

// A Token is what is kept of one: nothing that lets anybody in.
type Token struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Policy  string    `json:"policy,omitempty"`
	SHA256  string    `json:"sha256"` // of the whole token, in hex
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`

	// Of the token before the last rotation; until when it is good.
	Before      string    `json:"before,omitempty"`
	BeforeUntil time.Time `json:"beforeUntil,omitzero"`

	// LastUsed is when the token last let somebody in, to the minute; zero for never,
	// or not since the file that says so was lost.
	LastUsed time.Time `json:"-"`
}

// Expired tells whether the token lets nobody in any more.
func (t Token) Expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

var base32Lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

func newID() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // never fails
	return base32Lower.EncodeToString(b[:])
}

// mint makes a token of an id.
func mint(id string) (token, hash string) {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	token = Prefix + id + "_" + base64.RawURLEncoding.EncodeToString(b[:])
	return token, hashOf(token)
}

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// idOf is the id in a text of the form of a token; false for any other text.
func idOf(text string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(text, Prefix)
	if !ok || len(rest) != idLength+1+secretLength || rest[idLength] != '_' {
		return "", false
	}
	return rest[:idLength], true
}

// matches compares a token with a hash, in a time that does not tell how well.
func matches(sum [sha256.Size]byte, hash [sha256.Size]byte) bool {
	return subtle.ConstantTimeCompare(sum[:], hash[:]) == 1
}
