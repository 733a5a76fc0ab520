// Package door is what the program's own endpoint and admin API use of a hub
// beside its public API. It knows neither.
package door

import (
	"context"
	"sync/atomic"

	"github.com/everline/everline/internal/meter"
	"github.com/everline/everline/internal/policy"
	"github.com/everline/everline/internal/tracing"
)

// View returns the part of a hub that one client sees at one endpoint: all servers,
// or those of a group for a name, as far as policies grant them to who; nil is who
// may do everything. hub is an *everline.Hub and the result a gateway.View. Package
// everline sets it when it is initialized.
var View func(hub any, group string, who policy.Subject) any

// Counts returns what a hub has counted, by server; "" is for what no server was
// meant by. hub is an *everline.Hub. Package everline sets it, too.
var Counts func(hub any) map[string]meter.Counts

// Stuck names the servers of a hub whose loops do not answer until ctx ends: they
// themselves are asked nothing. hub is an *everline.Hub; as above.
var Stuck func(ctx context.Context, hub any) []string

// Record has what is recorded of calls and of starts given to a recorder, by a hub
// that is opened with these options: an *everline.Options. As above.
var Record func(options any, r tracing.Recorder)

var clients atomic.Uint64

// NewClientID returns a number that no other client of this process has. Calls
// whose clients have the same ID are of one client: where a server does not say
// whose call a request of its own belongs to, it gets there only while that
// client alone has calls in flight.
func NewClientID() uint64 { return clients.Add(1) }

type probe struct{}

// Probing marks a call as a drill's own, which counts apart from those of
// clients.
func Probing(ctx context.Context) context.Context { return context.WithValue(ctx, probe{}, true) }

// IsProbe tells whether the call of ctx is a drill's own.
func IsProbe(ctx context.Context) bool { return ctx.Value(probe{}) != nil }
