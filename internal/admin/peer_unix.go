//go:build linux || darwin

package admin

import (
	"net"
	"syscall"
)

// withSocket calls fn with the descriptor of a connection, if that has one.
func withSocket(conn net.Conn, fn func(fd int)) {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { fn(int(fd)) }) // fails where it is closed already
}
