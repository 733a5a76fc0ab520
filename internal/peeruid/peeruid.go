// Package peeruid tells which user of this machine is at the other end of a TCP
// connection. Only Linux can tell; elsewhere nobody is known.
package peeruid

import "net"

// Of is the user id of the process at the other end of a connection within this
// machine; known is false where that cannot be told. It asks the system, once,
// and reads nothing from the connection.
func Of(conn net.Conn) (uid int, known bool) {
	ours, ok := conn.LocalAddr().(*net.TCPAddr)
	theirs, ok2 := conn.RemoteAddr().(*net.TCPAddr)
	if !ok || !ok2 || !theirs.IP.IsLoopback() {
		return 0, false
	}
	return ownerOf(theirs, ours)
}
