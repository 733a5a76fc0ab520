package peeruid

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ownerOf is the owner of the socket that is bound to local and connected to
// remote. The kernel is asked for that one socket; where a sandbox forbids that,
// its table is searched.
func ownerOf(local, remote *net.TCPAddr) (uid int, known bool) {
	uid, err := ask(local, remote)
	if err == nil {
		return uid, true
	}
	if errors.Is(err, unix.ENOENT) {
		return 0, false
	}
	return search(local, remote)
}

// ofSocket is whose process connected a socket in the file system.
func ofSocket(fd int) (uid int, known bool) {
	c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, false
	}
	return int(c.Uid), true
}

// Sizes of sock_diag(7), in bytes.
const (
	headSize  = 16 // struct nlmsghdr
	idSize    = 48 // struct inet_diag_sockid
	askSize   = headSize + 8 + idSize
	uidAt     = headSize + 4 + idSize + 12 // in struct inet_diag_msg
	byFamily  = 20                         // SOCK_DIAG_BY_FAMILY
	noCookie  = 0xffffffff                 // INET_DIAG_NOCOOKIE
	anyState  = 0xffffffff
	answerMax = 4096
)

func ask(local, remote *net.TCPAddr) (uid int, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		return 0, err
	}
	if err := unix.Sendto(fd, question(local, remote), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, err
	}
	answer := make([]byte, answerMax)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return 0, err
	}
	return read(answer[:n])
}

func question(local, remote *net.TCPAddr) []byte {
	native, wire := binary.NativeEndian, binary.BigEndian
	family, src, dst := byte(unix.AF_INET), local.IP.To4(), remote.IP.To4()
	if src == nil || dst == nil {
		family, src, dst = unix.AF_INET6, local.IP.To16(), remote.IP.To16()
	}
	b := make([]byte, askSize)
	native.PutUint32(b, askSize)
	native.PutUint16(b[4:], byFamily)
	native.PutUint16(b[6:], unix.NLM_F_REQUEST)
	b[headSize], b[headSize+1] = family, unix.IPPROTO_TCP
	native.PutUint32(b[headSize+4:], anyState)
	id := b[headSize+8:]
	wire.PutUint16(id, uint16(local.Port))
	wire.PutUint16(id[2:], uint16(remote.Port))
	copy(id[4:20], src)
	copy(id[20:36], dst)
	native.PutUint32(id[40:], noCookie)
	native.PutUint32(id[44:], noCookie)
	return b
}

var errAnswer = errors.New("the kernel's answer cannot be read")

func read(answer []byte) (uid int, err error) {
	native := binary.NativeEndian
	switch {
	case len(answer) < headSize+4:
		return 0, errAnswer
	case native.Uint16(answer[4:]) == unix.NLMSG_ERROR:
		return 0, unix.Errno(-int32(native.Uint32(answer[headSize:])))
	case native.Uint16(answer[4:]) != byFamily || len(answer) < uidAt+4:
		return 0, errAnswer
	default:
		return int(native.Uint32(answer[uidAt:])), nil
	}
}

// search looks a socket up in /proc/net/tcp and /proc/net/tcp6.
func search(local, remote *net.TCPAddr) (uid int, known bool) {
	for _, table := range []struct {
		path string
		form func(*net.TCPAddr) string
	}{
		{"/proc/net/tcp", inTable4},
		{"/proc/net/tcp6", inTable6},
	} {
		file, err := os.Open(table.path)
		if err != nil {
			continue
		}
		uid, known = searchIn(file, table.form(local), table.form(remote))
		_ = file.Close() // it was read
		if known {
			return uid, true
		}
	}
	return 0, false
}

func searchIn(file *os.File, local, remote string) (uid int, known bool) {
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 8 || fields[1] != local || fields[2] != remote {
			continue
		}
		uid, err := strconv.Atoi(fields[7])
		return uid, err == nil
	}
	return 0, false
}

// inTable4 is an address as the table of IPv4 has it; "" if it is none.
func inTable4(a *net.TCPAddr) string {
	ip := a.IP.To4()
	if ip == nil {
		return ""
	}
	return fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(ip), a.Port)
}

// inTable6 is an address as the table of IPv6 has it, in which sockets of IPv6 that
// are connected over IPv4 are, too.
func inTable6(a *net.TCPAddr) string {
	var b strings.Builder
	for ip := a.IP.To16(); len(ip) > 0; ip = ip[4:] {
		fmt.Fprintf(&b, "%08X", binary.NativeEndian.Uint32(ip))
	}
	return fmt.Sprintf("%s:%04X", b.String(), a.Port)
}
