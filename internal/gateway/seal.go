package gateway

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"time"
)

// statePrefix begins every requestState of ours. One that begins so and cannot
// be opened is another everline's, or of an earlier run.
const statePrefix = "everline1."

// A sealer makes and opens requestStates (2026-07-28 basic/patterns/mrtr): a
// client can neither read nor change one, nor use it for another request or
// after its time. The key is that of this process.
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

// A ticket is what a requestState says: which parked call, in which round.
type ticket struct {
	call  uint64
	round uint32
	until time.Time
}

// seal encodes a ticket for one request.
func (s sealer) seal(t ticket, bind string) string {
	var b [20]byte
	binary.BigEndian.PutUint64(b[:], t.call)
	binary.BigEndian.PutUint32(b[8:], t.round)
	binary.BigEndian.PutUint64(b[12:], uint64(t.until.UnixMilli()))
	return statePrefix + base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, b[:], []byte(bind)))
}

// open decodes a requestState that came with a request; false if it is not
// ours, was changed, or is of another request.
func (s sealer) open(state, bind string) (ticket, bool) {
	text, ok := strings.CutPrefix(state, statePrefix)
	if !ok {
		return ticket{}, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return ticket{}, false
	}
	b, err := s.aead.Open(nil, nil, raw, []byte(bind))
	if err != nil || len(b) != 20 {
		return ticket{}, false
	}
	return ticket{
		call:  binary.BigEndian.Uint64(b),
		round: binary.BigEndian.Uint32(b[8:]),
		until: time.UnixMilli(int64(binary.BigEndian.Uint64(b[12:]))),
	}, true
}
