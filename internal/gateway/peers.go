package gateway

import (
	"net"
	"net/http"
	"sync"

	"github.com/everline/everline/internal/access"
	"github.com/everline/everline/internal/door"
)

const (
	maxPeers   = 1024 // connections that are remembered
	maxPeerIDs = 4096 // request ids of one of them
)

// peers tells which modern requests over HTTP, which name no session, come of
// one client: those of one connection with equal clientInfo. A connection that
// several clients share shows that by what a proxy adds, by another identity or clientInfo,
// or by a request id that comes again: a client uses each once. Who cannot be
// told from others is a client of its own in each request.
type peers struct {
	mu    sync.Mutex // guards the rest; nothing waits under it
	all   map[net.Addr]*peer
	order []net.Addr // the oldest first
}

// A peer is what one connection has shown of who is at its other end.
type peer struct {
	client uint64
	who    *access.Identity
	info   string
	ids    map[string]struct{}
	shared bool
}

// proxyHeaders are those that proxies add.
var proxyHeaders = []string{
	"Via", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "X-Request-Id", "Cf-Ray",
}

// clientOf is the client that a request of an identity comes from; 0 if that cannot be
// told.
func (p *peers) clientOf(r *http.Request, x *exchange, who *access.Identity) uint64 {
	conn := connection(r)
	if conn == nil {
		return 0
	}
	info := x.Fields.Meta.ClientInfo
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.all[conn]
	if c == nil {
		c = p.addLocked(conn, who, string(info))
	}
	_, again := c.ids[string(x.ID)]
	c.shared = c.shared || again || !c.who.Is(who) || len(info) == 0 || c.info != string(info) || len(c.ids) >= maxPeerIDs || proxied(r.Header)
	if c.shared {
		c.ids = nil
		return 0
	}
	c.ids[string(x.ID)] = struct{}{}
	return c.client
}

func (p *peers) addLocked(conn net.Addr, who *access.Identity, info string) *peer {
	if p.all == nil {
		p.all = map[net.Addr]*peer{}
	}
	if len(p.order) >= maxPeers {
		delete(p.all, p.order[0])
		p.order = p.order[1:]
	}
	c := &peer{client: door.NewClientID(), who: who, info: info, ids: map[string]struct{}{}}
	p.all[conn] = c
	p.order = append(p.order, conn)
	return c
}

// connection stands for the connection that a request came on: the local
// address is one pointer for all its requests, and another for each connection.
// It is nil where addresses are no pointers.
func connection(r *http.Request) net.Addr {
	switch addr := r.Context().Value(http.LocalAddrContextKey).(type) {
	case *net.TCPAddr:
		return addr
	case *net.UnixAddr:
		return addr
	default:
		return nil
	}
}

func proxied(h http.Header) bool {
	for _, key := range proxyHeaders {
		if h.Get(key) != "" {
			return true
		}
	}
	return false
}
