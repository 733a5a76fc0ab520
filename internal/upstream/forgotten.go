package upstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// Servers and the proxies in front of them say in many ways that they do not
// know a session: besides HTTP 404 also with an ordinary error, of any code,
// which says that the session was not initialized. Such an error may as well be
// a tool's own. So it only raises a doubt, and a request that this very session
// was answered before decides: ping, and since that may be asked of a server
// which was not initialized, a listing.

// mcp.CodeNotInitialized is used for this by servers that took it over from the
// language server protocol; in MCP it is that of an unknown resource.

// deniesSession tells an error that may say that the session is not known. The
// codes alone say little, and the words are the server's: neither decides.
func deniesSession(e *fault.RPCError) bool {
	words := strings.ToLower(e.Message)
	return e.Code == mcp.CodeInvalidRequest || e.Code == mcp.CodeNotInitialized ||
		strings.Contains(words, "initializ") || strings.Contains(words, "initialis") ||
		strings.Contains(words, "session") && e.Code != mcp.CodeInternal
}

var errForgotten = errors.New("the server answers as one that was not initialized")

// forgotten tells whether an error of a legacy server is that of one which has
// forgotten its session; the upstream has ended then. The request was refused
// before it was looked at. That needs a listing that was denied with the same
// code: a session that turned out to be gone in another way says nothing about
// a request that was answered.
func (d *doubts) forgotten(ctx context.Context, e *fault.RPCError) bool {
	if d.era.Modern || !d.listed.any() || !deniesSession(e) || d.ownWords(e) {
		return false
	}
	d.denied.Store(true)
	if d.lostFor(ctx) {
		var denial *fault.RPCError
		return errors.As(d.Err(), &denial) && denial.Code == e.Code
	}
	d.own.Store(&ownError{e.Code, e.Message, d.now()})
	return false
}

// An ownError is an error that turned out to be a tool's own.
type ownError struct {
	code  int64
	text  string
	found time.Duration // since born
}

// ownWords tells whether this very error was found to be a tool's own within
// eraVouched: one that fails again and again costs one probe in that time.
func (d *doubts) ownWords(e *fault.RPCError) bool {
	own := d.own.Load()
	return own != nil && own.code == e.Code && own.text == e.Message && d.now()-own.found < eraVouched
}

// askSession asks something that only a live session is answered. Its faults
// are those of Ping, and of kind SessionLost where the server denies the session.
func (d *doubts) askSession(ctx context.Context) error {
	denied := d.denied.Swap(false)
	if err := d.pinger.ping(ctx); err != nil || !denied {
		return err
	}
	for _, k := range catalog.Kinds {
		if d.listed.lists(k) && d.listed.any() {
			return d.stillLists(ctx, k)
		}
	}
	return nil
}

// stillLists asks for a listing that the server has answered before.
func (d *doubts) stillLists(ctx context.Context, k catalog.Kind) error {
	msg, f := d.ask(ctx, k.Method(), nil)
	switch {
	case f != nil:
		return f
	case msg.Error == nil:
		return nil
	}
	code, text := wire.DecodeError(msg.Error)
	if e := (&fault.RPCError{Code: code, Message: text}); deniesSession(e) {
		return &fault.Fault{Kind: fault.SessionLost, Op: k.Method(), Outcome: fault.NotSent, Err: fmt.Errorf("%w: %w", errForgotten, e)}
	}
	return nil
}
