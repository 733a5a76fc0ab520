package sessions

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"
	"time"
)

// A Session is what an id says of it: enough to go on with the session in an
// everline that has never seen it.
type Session struct {
	Name    [16]byte  // random; the session's name in this package
	Issued  time.Time // when the session began, in whole seconds
	Version string    // the protocol version that was agreed on; at most 255 bytes
	Serves  uint64    // what the client has declared to serve, in bits of the endpoint's own

	Client, ClientVersion string // what the client calls itself; an id keeps the first maxClient bytes of each
}

// New is a session that begins now.
func New(version string, serves uint64) Session {
	s := Session{Issued: time.Now().Round(0).Truncate(time.Second), Version: version, Serves: serves}
	_, _ = rand.Read(s.Name[:]) // never fails
	return s
}

// prefix begins every id, and names its form. 2025-11-25 basic/transports,
// Session Management: an id is visible ASCII and cannot be guessed.
const prefix = "e2."

const (
	clearHead = 4 + 8   // bytes before the version: the key's name, and what the client serves
	closed    = 16 + 8  // bytes that are sealed: the session's name, and when it began
	sealing   = 12 + 16 // bytes that sealing adds: the nonce and the tag
	minID     = clearHead + closed + sealing
	maxText   = 1024 // characters of an id that is looked at

	maxClient = 64     // bytes of a client's name or version: an id is in every request
	separator = "\x00" // in no version of the protocol, and cut out of names
)

// Seal is the id of a session, for one endpoint; no other endpoint opens it. What its client has
// agreed on and calls itself is in clear: it is the client's own, and is wanted where the key is lost.
func (s *Store) Seal(endpoint string, of Session) string {
	key := s.keys.newest(time.Now())
	head := make([]byte, 0, minID+len(of.Version)+2*(maxClient+1))
	head = append(head, key.name[:]...)
	head = binary.BigEndian.AppendUint64(head, of.Serves)
	head = append(head, of.Version...)
	if of.Client != "" || of.ClientVersion != "" {
		head = append(head, separator+cut(of.Client)+separator+cut(of.ClientVersion)...)
	}
	var b [closed]byte
	copy(b[:], of.Name[:])
	binary.BigEndian.PutUint64(b[16:], uint64(of.Issued.Unix()))
	return prefix + base64.RawURLEncoding.EncodeToString(key.aead.Seal(head, nil, b[:], bound(endpoint, head)))
}

// cut is what an id keeps of a name.
func cut(name string) string {
	name = strings.ReplaceAll(name, separator, "")
	return strings.ToValidUTF8(name[:min(len(name), maxClient)], "")
}

// bound is what an id is good for, beside what it says in clear.
func bound(endpoint string, head []byte) []byte { return slices.Concat(head, []byte(endpoint)) }

// Open reads an id that a client came with: false if it is forged, of another
// endpoint, or of a session that was ended. It keeps nothing.
//
// A key that made the id may be lost, or be too old. Its client has done nothing wrong, and few
// can begin anew: the session goes on as what the id says in clear, under a name that follows from
// the id. That is no less than whoever asks for a session is given.
func (s *Store) Open(endpoint, id string) (Session, bool) {
	text, ok := strings.CutPrefix(id, prefix)
	if !ok || len(text) > maxText {
		return Session{}, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < minID {
		return Session{}, false
	}
	head, rest := raw[:len(raw)-closed-sealing], raw[len(raw)-closed-sealing:]
	of := said(head)
	switch b, known, ok := s.keys.open([4]byte(head), rest, bound(endpoint, head)); {
	case ok:
		of.Name, of.Issued = [16]byte(b), time.Unix(int64(binary.BigEndian.Uint64(b[16:])), 0)
	case known:
		return Session{}, false
	default:
		sum := sha256.Sum256(bound(endpoint, raw))
		of.Name, of.Issued = [16]byte(sum[:]), time.Now().Round(0).Truncate(time.Second)
	}
	return of, !s.ended.has(of.Name)
}

// said is what an id says in clear.
func said(head []byte) Session {
	of := Session{Serves: binary.BigEndian.Uint64(head[4:])}
	var client string
	of.Version, client, _ = strings.Cut(string(head[clearHead:]), separator)
	client, version, _ := strings.Cut(client, separator)
	of.Client, of.ClientVersion = cut(client), cut(version)
	return of
}

// End ends a session for good: from now on its id opens nothing, here and in
// every everline after this one. It does not wait; the caller must call keep,
// which writes that to the disk.
func (s *Store) End(of Session) (keep func()) {
	if !s.ended.mark(of) {
		return func() {}
	}
	return func() {
		s.ended.write(of)
		s.notes.remove(of)
	}
}
