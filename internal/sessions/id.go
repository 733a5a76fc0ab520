package sessions

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
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
const prefix = "e1."

const (
	idHead  = 16 + 8 + 8 // bytes before the version
	maxText = 1024       // characters of an id that is looked at

	maxClient = 64      // bytes of a client's name or version: an id is in every request
	separator = byte(0) // in no version of the protocol, and cut out of names
)

// Seal is the id of a session, for one endpoint; no other endpoint opens it.
func (s *Store) Seal(endpoint string, of Session) string {
	b := make([]byte, idHead, idHead+len(of.Version))
	copy(b, of.Name[:])
	binary.BigEndian.PutUint64(b[16:], uint64(of.Issued.Unix()))
	binary.BigEndian.PutUint64(b[24:], of.Serves)
	b = append(b, of.Version...)
	if of.Client != "" || of.ClientVersion != "" {
		b = append(append(b, separator), cut(of.Client)...)
		b = append(append(b, separator), cut(of.ClientVersion)...)
	}
	key := s.keys.newest(time.Now())
	return prefix + base64.RawURLEncoding.EncodeToString(key.aead.Seal(nil, nil, b, []byte(endpoint)))
}

// cut is what an id keeps of a name.
func cut(name string) string {
	name = strings.ReplaceAll(name, string([]byte{separator}), "")
	return strings.ToValidUTF8(name[:min(len(name), maxClient)], "")
}

// Open reads an id that a client came with: false if it is forged, too old, of
// another endpoint, or of a session that was ended. It keeps nothing.
func (s *Store) Open(endpoint, id string) (Session, bool) {
	text, ok := strings.CutPrefix(id, prefix)
	if !ok || len(text) > maxText {
		return Session{}, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return Session{}, false
	}
	b, ok := s.keys.open(raw, []byte(endpoint))
	if !ok || len(b) < idHead {
		return Session{}, false
	}
	of := Session{
		Name:   [16]byte(b),
		Issued: time.Unix(int64(binary.BigEndian.Uint64(b[16:])), 0),
		Serves: binary.BigEndian.Uint64(b[24:]),
	}
	var client string
	of.Version, client, _ = strings.Cut(string(b[idHead:]), string([]byte{separator}))
	of.Client, of.ClientVersion, _ = strings.Cut(client, string([]byte{separator}))
	return of, !s.ended.has(of.Name)
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
