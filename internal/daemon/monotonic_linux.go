package daemon

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// monotonic is the time as the service manager counts it, without which it does
// not know which reload has ended.
func monotonic() string {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return ""
	}
	return "MONOTONIC_USEC=" + strconv.FormatInt(t.Nano()/1000, 10)
}
