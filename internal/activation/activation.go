// Package activation takes over the socket that a service manager has opened for
// this process (sd_listen_fds(3)): connections that come while everline
// restarts wait in it instead of being refused.
package activation

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/everline/everline/fault"
)

// firstFD is where the sockets of a service manager begin.
const firstFD = 3

// variables are what a service manager sets for this process alone.
var variables = []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}

// Listener is the socket that this process was started with; nil if there is
// none. It must be called before a child is started, and only once: the
// variables are removed, so that no child takes the socket for its own. The
// caller must close the listener; the socket itself stays with the manager.
func Listener() (net.Listener, error) {
	pid, count := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS")
	for _, name := range variables {
		if err := os.Unsetenv(name); err != nil {
			return nil, err
		}
	}
	if pid != strconv.Itoa(os.Getpid()) || count == "" || count == "0" {
		return nil, nil
	}
	if count != "1" {
		return nil, refused(fmt.Errorf("the service manager hands %s sockets over, and one can be served", count))
	}
	file := os.NewFile(firstFD, "socket of the service manager")
	defer file.Close() // the listener has its own descriptor
	l, err := net.FileListener(file)
	if err != nil {
		return nil, refused(errors.New("what the service manager hands over is no socket that listens: " + err.Error()))
	}
	return l, nil
}

func refused(err error) error {
	return &fault.Fault{
		Kind: fault.Invalid, Op: "take over a socket", Outcome: fault.NotSent, Err: err,
		Remedy: "have one ListenStream= and Accept=no in the .socket unit",
	}
}
