package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/access"
	"github.com/everline/everline/internal/peeruid"
)

// A userListener is a listener whose connections know of which user they are, as far
// as the system tells. As long as the configuration wants that, those of another user
// of the machine are turned away before anything is read.
type userListener struct {
	net.Listener
	clients func() config.Clients
	uidOf   func(net.Conn) (uid int, known bool)
	log     *slog.Logger
	turned  func(uid int) // hears of who was turned away

	mu   sync.Mutex   // guards told
	told map[int]bool // users that the log has named
}

// maxTold bounds what the log says of users that are turned away.
const maxTold = 64

func withUsers(l net.Listener, clients func() config.Clients, log *slog.Logger) *userListener {
	return &userListener{Listener: l, clients: clients, uidOf: peeruid.Of, log: log, told: map[int]bool{}}
}

func (l *userListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		uid, known := l.uidOf(conn)
		switch {
		case !known:
			return conn, nil
		case uid != os.Geteuid() && uid != 0 && l.clients() == config.ClientsSameUser:
			l.turnAway(conn, uid)
		case uid == os.Geteuid():
			return userConn{conn, access.Local()}, nil
		default:
			return userConn{conn, access.User(uid)}, nil
		}
	}
}

// A userConn is the connection of a user.
type userConn struct {
	net.Conn
	who *access.Identity
}

// CloseWrite lets net/http end a connection so that its last answer is read.
func (c userConn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// identified puts the user that a connection is of into the context of its requests.
func identified(ctx context.Context, conn net.Conn) context.Context {
	for {
		if c, ok := conn.(userConn); ok {
			return access.With(ctx, c.who)
		}
		outer, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return ctx
		}
		conn = outer.NetConn()
	}
}

const turnedAway = "This everline serves its own user alone. Its user can let others in: \"clients\": \"any-local\" in everline.json.\n"

// turnAway answers without having read anything, and does not wait for the client.
func (l *userListener) turnAway(conn net.Conn, uid int) {
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second)) // an empty buffer takes it without waiting
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(turnedAway), turnedAway)
	_ = conn.Close()
	if l.turned != nil {
		l.turned(uid)
	}
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
