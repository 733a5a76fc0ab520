package telemetry

import (
	"log/slog"
	"strconv"
	"sync/atomic"
)

// An outlet counts what of a signal is exported, and what is lost.
type outlet struct {
	signal string // as in everline_telemetry_lost_total
	log    *slog.Logger
	room   int64 // for what waits

	waiting atomic.Int64
	lost    atomic.Uint64
	failing atomic.Bool // the last export has failed
}

// usualRoom is that of the SDK, for spans and for logs.
const usualRoom = 2048

// roomOf is how much may wait to be exported: what the SDK takes from the same
// variable.
func roomOf(getenv func(string) string, variable string) int64 {
	if n, err := strconv.ParseInt(getenv(variable), 10, 64); err == nil && n > 0 {
		return n
	}
	return usualRoom
}

// take makes room for what is to be exported together; false if there is none, and it
// is lost. The SDK's own queue has as much and is never full, so that no loss is
// uncounted.
func (o *outlet) take(n int64) bool {
	if o.waiting.Add(n) <= o.room {
		return true
	}
	o.waiting.Add(-n)
	o.lost.Add(uint64(n))
	return false
}

// exported notes how an export of so many went. The first failure in a row is told.
func (o *outlet) exported(n int, err error) {
	o.waiting.Add(-int64(n))
	if err != nil {
		o.lost.Add(uint64(n))
	}
	if was := o.failing.Swap(err != nil); err != nil && !was {
		o.log.Warn(o.signal+" are lost: they cannot be exported", "cause", err)
	} else if was && err == nil {
		o.log.Info(o.signal+" are exported again", "lost", o.lost.Load())
	}
}
