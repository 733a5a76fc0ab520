package fleet

import (
	"context"
	"net/http"

	"github.com/everline/everline/event"
	"github.com/everline/everline/internal/auth"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/slot"
	"github.com/everline/everline/internal/tracing"
	"github.com/everline/everline/internal/upstream"
)

// Options make a Fleet. The func fields must not block; nil is allowed.
type Options struct {
	StateDir      string // where last good catalogs are kept; "": nowhere
	Name, Version string // what servers are told of us

	CredentialsDir string // where logins are kept; "": in memory
	CredentialsKey string // the file of their key; "": one that is found or made

	// RoundTripper is what sends the requests of one generation of a server at a
	// URL, by way of base.
	RoundTripper func(server string, base http.RoundTripper) http.RoundTripper

	// Browser opens a URL for a person, whenever a server asks for a login; nil:
	// nothing is opened. RedirectURI is where browsers reach LoginCallback.
	Browser     func(ctx context.Context, url string) error
	RedirectURI func() string

	Pins *catalog.Lock // as ReadPins gives it

	Emit     func(event.Event)     // every event of every slot
	Observe  func(event.CallFacts) // every call of every slot, when it has ended
	Recorder tracing.Recorder      // takes what is recorded of calls and of starts
	Changed  func([]catalog.Kind)  // after a new table is out: the kinds that differ
	// Announced: a server has announced a change of lists that are the same.
	Announced func(server string, kinds []catalog.Kind)
	Log       func(server string, params []byte) // notifications/message of a server
	Warn      func(server, text string)          // a state file that could not be read or written

	// Start starts a generation in place of upstream.Start, and Auth changes how
	// credentials are had; for tests.
	Start func(context.Context, upstream.Options) (slot.Upstream, error)
	Auth  func(*auth.Options)
}
