// Package peeruid tells which user of this machine is at the other end of a
// connection. Linux can tell of TCP, Linux and macOS of sockets in the file system;
// elsewhere nobody is known.
package peeruid

import (
	"net"
	"syscall"
)

// Of is the user id of the process at the other end of a connection within this
// machine; known is false where that cannot be told. It asks the system, once,
// and reads nothing from the connection.
func Of(conn net.Conn) (uid int, known bool) {
	switch ours := conn.LocalAddr().(type) {
	case *net.TCPAddr:
		if theirs, ok := conn.RemoteAddr().(*net.TCPAddr); ok && theirs.IP.IsLoopback() {
			return ownerOf(theirs, ours)
		}
	case *net.UnixAddr:
		c, ok := conn.(syscall.Conn)
		if !ok {
			break
		}
		if raw, err := c.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { uid, known = ofSocket(int(fd)) }) // fails where it is closed already
		}
	}
	return uid, known
}
