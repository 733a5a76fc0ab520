package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/everline/everline/fault"
)

func listen(ctx context.Context, address string) (net.Listener, error) {
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", address)
	if err == nil {
		return l, nil
	}
	if !errors.Is(err, errInUse) {
		return nil, &fault.Fault{Kind: fault.Invalid, Op: "listen on " + address, Err: err, Remedy: "--listen 127.0.0.1:7433"}
	}
	text := "the address is in use"
	_, port, _ := net.SplitHostPort(address)
	if n, err := strconv.Atoi(port); err == nil {
		if pid := PortOwner(n); pid != 0 {
			text += fmt.Sprintf(" by process %d", pid)
		}
	}
	return nil, &fault.Fault{
		Kind: fault.Conflict, Op: "listen on " + address, Err: errors.New(text),
		Remedy: "end that program, or choose another port with --listen",
	}
}
