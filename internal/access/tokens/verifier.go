package tokens

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/everline/everline/internal/access"
	"github.com/everline/everline/internal/owned"
)

// A Verifier knows the tokens of a state folder as they were when Refresh last
// looked. Its methods may be called by many goroutines at once; Refresh by one.
type Verifier struct {
	dir   string
	local atomic.Pointer[known] // the user's own; nil for none
	table atomic.Pointer[map[string]*known]

	seen    os.FileInfo // of the file that table was made of; nil for none
	expiry  time.Time   // of the token that expires next; zero for none
	written time.Time   // when it was last written down who came
}

// known is one token, ready to be compared.
type known struct {
	id          *access.Identity
	hash        [sha256.Size]byte
	before      [sha256.Size]byte
	beforeUntil time.Time
	used        *atomic.Int64 // the minute of its last use, since 1970
}

// NewVerifier knows no token before the first Refresh.
func NewVerifier(dir string) *Verifier {
	v := &Verifier{dir: dir}
	v.table.Store(&map[string]*known{})
	return v
}

// usedEvery is how often it is written down who came.
const usedEvery = time.Minute

// Refresh reads the file again if it is another one than the last time, and writes
// down from time to time which tokens are used. Where the file cannot be read the
// tokens stay as they were. changed tells whether there are other tokens than before,
// or one has expired.
func (v *Verifier) Refresh() (changed bool, err error) {
	info, err := os.Stat(filepath.Join(v.dir, fileName))
	if err != nil {
		info = nil
	}
	if !sameFile(info, v.seen) {
		all, err := read(v.dir)
		v.seen = info
		if err != nil {
			return false, err
		}
		v.use(all)
		changed = true
	}
	if now := time.Now(); !v.expiry.IsZero() && !now.Before(v.expiry) {
		changed = true
		v.noteExpiry(now)
	}
	if time.Since(v.written) >= usedEvery {
		v.written = time.Now()
		return changed, v.writeUsed()
	}
	return changed, nil
}

// noteExpiry notes when the next token expires.
func (v *Verifier) noteExpiry(now time.Time) {
	v.expiry = time.Time{}
	for _, k := range *v.table.Load() {
		if at := k.id.Expires(); at.After(now) && (v.expiry.IsZero() || at.Before(v.expiry)) {
			v.expiry = at
		}
	}
}

func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

func (v *Verifier) use(all []Token) {
	old, table := *v.table.Load(), make(map[string]*known, len(all))
	for _, t := range all {
		k := &known{id: access.Token(t.ID, t.Name, t.Policy, t.Expires), beforeUntil: t.BeforeUntil, used: &atomic.Int64{}}
		_, _ = hex.Decode(k.hash[:], []byte(t.SHA256)) // read has checked it
		if n, err := hex.Decode(k.before[:], []byte(t.Before)); err != nil || n != len(k.before) {
			k.beforeUntil = time.Time{}
		}
		if was := old[t.ID]; was != nil {
			k.used = was.used
		}
		table[t.ID] = k
	}
	v.table.Store(&table)
	v.noteExpiry(time.Now())
}

// writeUsed writes down who came since the last time. It is for people alone: a
// file that cannot be written is no error of a client.
func (v *Verifier) writeUsed() error {
	path, used, fresh := filepath.Join(v.dir, usedName), map[string]int64{}, false
	table := *v.table.Load()
	for _, k := range table {
		fresh = fresh || k.used.Load() > 0
	}
	if !fresh {
		return nil
	}
	_ = readJSON(path, &used) // one that is damaged is made anew
	for id := range used {
		if table[id] == nil {
			delete(used, id)
		}
	}
	for id, k := range table {
		used[id] = max(used[id], k.used.Swap(0))
	}
	if err := writeJSON(path, used); err != nil {
		return unable(err)
	}
	return nil
}

// Verify is whose token a text is; nil if it is none that is good now.
func (v *Verifier) Verify(text string, now time.Time) *access.Identity {
	id, ok := idOf(text)
	if !ok {
		return nil
	}
	k := v.find(id)
	if k == nil {
		return nil
	}
	sum := sha256.Sum256([]byte(text))
	if !matches(sum, k.hash) && !(now.Before(k.beforeUntil) && matches(sum, k.before)) || k.id.Expired(now) {
		return nil
	}
	if minute := now.Unix() / 60; k.used.Load() < minute {
		k.used.Store(minute)
	}
	return k.id
}

// IsToken tells whether a text has the form of a token, good or not.
func IsToken(text string) bool { _, ok := idOf(text); return ok }

func (v *Verifier) find(id string) *known {
	if id == localID {
		return v.local.Load()
	}
	return (*v.table.Load())[id]
}

// keyPrefix begins the key of every identity that has shown a token.
const keyPrefix = "token:"

// Knows tells whether the token of an identity is still there, good, and of the same
// policy.
func (v *Verifier) Knows(who *access.Identity, now time.Time) bool {
	k := (*v.table.Load())[strings.TrimPrefix(who.Key(), keyPrefix)]
	return k != nil && k.id.Entitlement() == who.Entitlement() && !k.id.Expired(now)
}

const (
	localName = "local.token"
	localID   = "00000000" // which base32 has not
)

// MakeLocal makes a token by which the user's own programs come in, where the
// system does not tell whose they are, and puts it into a file that nobody else
// can read.
func (v *Verifier) MakeLocal() error {
	if err := owned.MakeFolder(v.dir); err != nil {
		return err
	}
	token, hash := mint(localID)
	if err := owned.Replace(filepath.Join(v.dir, localName), []byte(token+"\n"), 0o600); err != nil {
		return unable(err)
	}
	k := &known{id: access.Local(), used: &atomic.Int64{}}
	_, _ = hex.Decode(k.hash[:], []byte(hash)) // it is a hash
	v.local.Store(k)
	return nil
}

// Local is the token that the everline of a state folder takes from its own user;
// "" if there is none.
func Local(dir string) string {
	f, err := owned.Open(filepath.Join(dir, localName), os.O_RDONLY, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	var b [len(Prefix) + idLength + 1 + secretLength]byte
	if n, err := f.Read(b[:]); err != nil || !IsToken(string(b[:n])) {
		return ""
	}
	return string(b[:])
}
