package admin

import (
	"fmt"
	"net"
	"os"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/orphan"
	"github.com/everline/everline/internal/owned"
)

// A peer is the process at the other end of the socket, as the system knows it.
// Its numbers are those of the moment at which it connected.
type peer struct{ uid, pid int }

// root may do everything anyway.
const root = 0

// Accept returns the next connection of the user or of root; others are closed.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		p, known := peerOf(conn)
		if !known {
			return conn, nil // the folder keeps others out
		}
		if sameUser(p.uid, os.Geteuid()) {
			return peerConn{conn, p}, nil
		}
		_ = conn.Close() // nothing was read
	}
}

// sameUser reports whether a process of the user them may ask one of the user me.
func sameUser(them, me int) bool { return them == me || them == root }

// mayServe reports whether a server of the user them is the one that the user me
// looks for, in a state folder of the user owner.
func mayServe(them, me, owner int) bool { return sameUser(them, me) || me == root && them == owner }

// peerConn names its peer as the address that a request comes from.
type peerConn struct {
	net.Conn
	peer peer
}

func (c peerConn) RemoteAddr() net.Addr { return peerAddr(c.peer) }

// peerAddr is a process as an address: "pid 4711 of uid 1000".
type peerAddr peer

const peerForm = "pid %d of uid %d"

func (peerAddr) Network() string  { return "unix" }
func (a peerAddr) String() string { return fmt.Sprintf(peerForm, a.pid, a.uid) }

// peerIn is the process that an address stands for; false if it is no such address.
func peerIn(address string) (p peer, ok bool) {
	_, err := fmt.Sscanf(address, peerForm, &p.pid, &p.uid)
	return p, err == nil
}

// checkServer makes sure that the server of the socket is the user, or root. Root
// is served by the owner of the state folder.
func checkServer(conn net.Conn, stateDir string) error {
	p, known := peerOf(conn)
	owner, _ := owned.Owner(stateDir) // 0 lets nobody more in
	if !known || mayServe(p.uid, os.Geteuid(), owner) {
		return nil
	}
	return &fault.Fault{
		Kind: fault.Forbidden, Op: "ask everline", Outcome: fault.NotSent, Remedy: "name another folder with --state-dir",
		Err: fmt.Errorf("another user (uid %d, pid %d) serves the socket of the state folder %s", p.uid, p.pid, stateDir),
	}
}

// fromServer reports whether a request comes from a process below this one, or from
// one that has left it and still has the mark that every server is given. One that
// has ended since is taken for such: nobody can tell any more.
func fromServer(address string) bool {
	p, ok := peerIn(address)
	if !ok || p.pid <= 0 || p.pid == os.Getpid() { // 0 is outside of our process tree
		return false
	}
	return Below(p.pid, os.Getpid()) || orphan.Ours(p.pid)
}

// maxDepth is more than any chain of processes is long.
const maxDepth = 1 << 12

// Below reports whether a process descends from another, or has ended. It is
// false where the system does not tell.
func Below(pid, top int) bool {
	for range maxDepth {
		above, known := parentOf(pid)
		switch {
		case !known:
			return false
		case above == top || above == gone:
			return true
		case above <= 1:
			return false
		}
		pid = above
	}
	return true
}

// gone is the parent of a process that is no more.
const gone = -1
