package auth

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
)

// A journal is what a refresh leaves behind if its process is killed. Where
// refresh tokens rotate, the old one is spent as soon as the issuer has seen it,
// and the new one is in one answer alone. So the answer is put here, in one write
// without waiting for the disk, before the store, whose file takes as long as the
// disk does; and before the request it is noted that one was made, because then
// the old token is to be tried at once: issuers that forgive a second use do so
// for seconds. What no client can mend is a process that is killed while the
// answer is on its way, with an issuer that forgives nothing.
//
// It is the file whose lock a refresh holds, sealed as the store is, and empty but
// for the time of a refresh.
type journal struct {
	file *os.File                  // nil: nothing is kept
	seal func([]byte) []byte       // with the key of the store; nil: there is none yet
	open func([]byte) (raw []byte) // nil: it is none of ours
}

// An entry is a refresh that was begun, or answered.
type entry struct {
	Spent string  `json:"spent"`         // the refresh token that was sent
	Got   *record `json:"got,omitempty"` // nil: no answer came
}

const journalMax = 1 << 20

// journalOf prepares the journal of a credential, whose lock is held. Nothing of
// it waits later.
func (m *Manager) journalOf(ctx context.Context, file *os.File) *journal {
	j := &journal{file: file}
	if file != nil {
		j.seal, j.open = m.store.sealer(ctx, filepath.Base(file.Name()))
	}
	return j
}

// put replaces what is noted. The length comes first: what an earlier entry has
// left behind it is not looked at.
func (j *journal) put(e entry) {
	if j.seal == nil {
		return
	}
	raw, err := json.Marshal(e)
	if err != nil {
		return
	}
	sealed := j.seal(raw)
	_, _ = j.file.WriteAt(append(binary.BigEndian.AppendUint32(nil, uint32(len(sealed))), sealed...), 0) // without it a kill costs more
}

// take returns what a process that is gone has left; nil if that is nothing.
func (j *journal) take() *entry {
	if j.open == nil {
		return nil
	}
	var head [4]byte
	if _, err := j.file.ReadAt(head[:], 0); err != nil {
		return nil
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > journalMax {
		return nil
	}
	sealed := make([]byte, n)
	if _, err := j.file.ReadAt(sealed, 4); err != nil {
		return nil
	}
	var e entry
	if json.Unmarshal(j.open(sealed), &e) != nil {
		return nil
	}
	return &e
}

// clear forgets: the store has it.
func (j *journal) clear() {
	if j.file != nil {
		_ = j.file.Truncate(0) // what stays is not believed: its token is not the one that is stored
	}
}

// cutOff tells whether a refresh of a credential was begun by a process that is
// gone, or is running in another.
func (m *Manager) cutOff(k key) bool {
	if m.o.StateDir == "" {
		return false
	}
	info, err := os.Stat(m.lockPath(k, refreshLock))
	return err == nil && info.Size() > 0
}
