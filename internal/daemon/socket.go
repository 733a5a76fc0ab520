package daemon

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/owned"
)

// socketLook is how long a socket that is there may take to answer.
const socketLook = time.Second

// listenUnix listens at a path, in a folder that is made where needed, and must be
// the user's alone: between its making and its mode a socket is open to others. One
// that nobody serves is replaced.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	fail := func(kind fault.Kind, remedy string, err error) error {
		return &fault.Fault{Kind: kind, Op: "listen on " + path, Outcome: fault.NotSent, Err: err, Remedy: remedy}
	}
	if err := owned.MakeFolder(filepath.Dir(path)); err != nil {
		return nil, fail(fault.Invalid, `name a path in a folder of your own as "listenUnix"`, err)
	}
	if info, err := os.Lstat(path); err == nil {
		if info.Mode().Type() != fs.ModeSocket {
			return nil, fail(fault.Invalid, "choose another path", errors.New("there is something else"))
		}
		look, cancel := context.WithTimeout(ctx, socketLook)
		defer cancel()
		if conn, err := (&net.Dialer{}).DialContext(look, "unix", path); err == nil {
			_ = conn.Close() // nothing was said
			return nil, fail(fault.Conflict, "end that program, or choose another path", errors.New("another program serves it"))
		}
		if err := os.Remove(path); err != nil {
			return nil, fail(fault.Invalid, "choose another path", err)
		}
	}
	var c net.ListenConfig
	l, err := c.Listen(ctx, "unix", path)
	if err == nil {
		if err = os.Chmod(path, 0o600); err != nil {
			_ = l.Close() // the error that matters is the first one
		}
	}
	if err != nil {
		return nil, fail(fault.Invalid, "choose a path of at most 100 characters", err)
	}
	return l, nil
}
