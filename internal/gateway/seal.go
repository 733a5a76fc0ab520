package gateway

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/everline/everline/internal/wire"
)

// statePrefix begins every requestState of ours. One that begins so and cannot
// be opened is another everline's, or of an earlier run.
const statePrefix = "everline1."

// A sealer makes and opens requestStates (2026-07-28 basic/patterns/mrtr): a
// client can neither read nor change one. The key is that of this process.
type sealer struct{ aead cipher.AEAD }

func newSealer() sealer {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		panic("bug: a key of 32 bytes is none: " + err.Error())
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic("bug: no GCM: " + err.Error())
	}
	return sealer{aead}
}

// A ticket is what a requestState says: which parked call, in which round, and
// until when and for which requests it is good.
type ticket struct {
	call  uint64
	round uint32
	until time.Time
	bind  binding
}

const (
	ticketHead = 20 // bytes before the binding
	ticketSize = ticketHead + len(binding{})
)

// A binding is the digest of what a requestState is good for.
type binding [sha256.Size]byte

// bind binds to one method, name and arguments, to the session that the request
// names, and where requests come on a connection, to that one.
func (x *exchange) bind() binding {
	name, _ := x.ItemName()
	session, _ := wire.Text(x.name)
	client := uint64(0)
	if x.sess != nil {
		client = x.sess.ID()
	}
	b := fmt.Appendf(nil, "%q %q %q %q %d ", x.Method, name, x.Fields.Ref, session, client)
	return sha256.Sum256(append(b, ordered(x.Fields.Arguments)...))
}

// ordered is a JSON text with its members in order, so that a client may write
// the same value in another way.
func ordered(raw []byte) []byte {
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return raw // nothing, as a rule
	}
	form, err := json.Marshal(v)
	if err != nil {
		return raw
	}
	return form
}

func (s sealer) seal(t ticket) string {
	var b [ticketSize]byte
	binary.BigEndian.PutUint64(b[:], t.call)
	binary.BigEndian.PutUint32(b[8:], t.round)
	binary.BigEndian.PutUint64(b[12:], uint64(t.until.UnixMilli()))
	copy(b[ticketHead:], t.bind[:])
	return statePrefix + base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, b[:], nil))
}

// open decodes a requestState that came with a request; false if it is not
// ours, or was changed.
func (s sealer) open(state string) (ticket, bool) {
	text, ok := strings.CutPrefix(state, statePrefix)
	if !ok {
		return ticket{}, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return ticket{}, false
	}
	b, err := s.aead.Open(nil, nil, raw, nil)
	if err != nil || len(b) != ticketSize {
		return ticket{}, false
	}
	return ticket{
		call:  binary.BigEndian.Uint64(b),
		round: binary.BigEndian.Uint32(b[8:]),
		until: time.UnixMilli(int64(binary.BigEndian.Uint64(b[12:]))),
		bind:  binding(b[ticketHead:]),
	}, true
}
