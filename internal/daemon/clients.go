package daemon

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/peeruid"
)

// usersOnly is a listener whose connections are of the user's own processes, or of
// root's, as long as the configuration wants that. Another user of the machine is
// turned away before anything is read. Whose a connection is that comes from
// elsewhere, or on a system that does not tell, is not asked.
type usersOnly struct {
	net.Listener
	clients func() config.Clients
	uidOf   func(net.Conn) (uid int, known bool)
	log     *slog.Logger

	mu   sync.Mutex   // guards told
	told map[int]bool // users that the log has named
}

// maxTold bounds what the log says of users that are turned away.
const maxTold = 64

func onlyTheUser(l net.Listener, clients func() config.Clients, log *slog.Logger) *usersOnly {
	return &usersOnly{Listener: l, clients: clients, uidOf: peeruid.Of, log: log, told: map[int]bool{}}
}

func (l *usersOnly) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil || l.clients() == config.ClientsAnyLocal {
			return conn, err
		}
		uid, known := l.uidOf(conn)
		if !known || uid == os.Geteuid() || uid == 0 {
			return conn, nil
		}
		l.turnAway(conn, uid)
	}
}

const turnedAway = "This everline serves its own user alone. Its user can let others in: \"clients\": \"any-local\" in everline.json.\n"

// turnAway answers without having read anything, and does not wait for the client.
func (l *usersOnly) turnAway(conn net.Conn, uid int) {
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second)) // an empty buffer takes it without waiting
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(turnedAway), turnedAway)
	_ = conn.Close()
	l.mu.Lock()
	first := !l.told[uid] && len(l.told) < maxTold
	if first {
		l.told[uid] = true
	}
	l.mu.Unlock()
	if first {
		l.log.Warn("a client of another user is refused: uid "+strconv.Itoa(uid), "address", l.Addr().String())
	}
}
