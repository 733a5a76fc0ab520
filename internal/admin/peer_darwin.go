package admin

import (
	"net"

	"golang.org/x/sys/unix"
)

func peerOf(conn net.Conn) (p peer, known bool) {
	withSocket(conn, func(fd int) {
		c, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
		if err != nil {
			return
		}
		pid, err := unix.GetsockoptInt(fd, unix.SOL_LOCAL, unix.LOCAL_PEERPID)
		p, known = peer{int(c.Uid), pid}, err == nil
	})
	return p, known
}

// parentOf knows no process that left its parent: that is process 1's here.
func parentOf(pid int) (parent int, known bool) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(info.Proc.P_pid) != pid {
		return gone, true
	}
	return int(info.Eproc.Ppid), true
}
