package admin

import (
	"bytes"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

func peerOf(conn net.Conn) (p peer, known bool) {
	withSocket(conn, func(fd int) {
		if c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			p, known = peer{int(c.Uid), int(c.Pid)}, true
		}
	})
	return p, known
}

// parentOf reads "pid (name) state ppid ..."; the name may contain anything.
func parentOf(pid int) (parent int, known bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		_, err = os.Stat("/proc/self/stat")
		return gone, err == nil
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return gone, true
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return parent, err == nil
}
