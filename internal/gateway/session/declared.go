package session

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// A Declared is what a client has declared.
type Declared struct {
	Served
	more []byte // other extensions, and what is experimental, as client capabilities; nil for none. Not changed
}

const (
	maxMore  = 4096        // bytes of them that are kept for one client
	moreSaid = time.Minute // between two warnings of clients that declare more
)

// moreOf are the extensions in client capabilities, and what is experimental there; nil for none.
// MCP Apps are in Served, and tasks a client has in the words of its own era.
func moreOf(capabilities []byte) (more []byte) {
	extensions := wire.Delete(wire.Delete(wire.Get(capabilities, "extensions"), mcp.ExtensionUI), mcp.ExtensionTasks)
	if declares(extensions) {
		more = wire.Set(more, extensions, "extensions")
	}
	if experimental := wire.Get(capabilities, "experimental"); declares(experimental) {
		more = wire.Set(more, experimental, "experimental")
	}
	return more
}

// declares tells whether val is an object that has members.
func declares(val []byte) bool {
	for range wire.Members(val) {
		return true
	}
	return false
}

// Declaration is d as client capabilities for a server; nil for nothing.
func (d Declared) Declaration() []byte {
	if d.more == nil {
		return d.Served.Declaration()
	}
	more := d.more
	if d.Served&showsUI != 0 {
		more = wire.Set(more, []byte(mcp.SettingsUI), "extensions", mcp.ExtensionUI)
	}
	asks := d.Asks().Declaration()
	if asks == nil {
		return more
	}
	return slices.Concat(asks[:len(asks)-1], []byte(","), more[1:])
}

// declareMore keeps what else a client has declared, for the next everline as well.
// offered are the capabilities of a modern request that it is of.
func (s *Session) declareMore(more, offered []byte) {
	if len(more) > maxMore {
		s.store.warnOfMore(s, len(more))
		more = nil
	}
	s.mu.Lock()
	changed := !bytes.Equal(s.more, more)
	s.more = more
	s.offeredLocked(offered) // with more, or another request could come between
	s.mu.Unlock()
	if changed {
		s.Remember()
	}
}

// offeredLocked notes capabilities that would change nothing if they came again.
func (s *Session) offeredLocked(capabilities []byte) {
	s.offered = nil
	if len(capabilities) <= maxMore {
		s.offered = bytes.Clone(capabilities)
	}
}

// warnOfMore says that what a client has declared is not kept, once in a while.
func (st *Store) warnOfMore(s *Session, size int) {
	st.mu.Lock()
	due := st.o.Warn != nil && time.Since(st.warned) >= moreSaid
	if due {
		st.warned = time.Now()
	}
	st.mu.Unlock()
	if due {
		name, _ := s.ClientInfo()
		st.o.Warn(fmt.Sprintf("servers are not told which extensions the client %q has: it declares %d bytes of them, and %d are kept", name, size, maxMore))
	}
}
