package entrance

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	failures   = 10 // tokens of one peer that may be refused in a minute,
	failBurst  = 20 // and at a time
	lockedOut  = time.Minute
	maxPeers   = 10_000
	peerPrefix = 64 // bits of an address of IPv6 that one peer has for itself
)

// peers are the addresses that have shown bad tokens, the last ones of them.
type peers struct {
	mu    sync.Mutex // guards the rest; nothing waits under it
	all   map[string]*list.Element
	order list.List // of *peer, who failed last in front
}

type peer struct {
	name  string
	limit *rate.Limiter
	until time.Time // locked out until then
}

// peerOf is who sends from an address, as far as that tells.
func peerOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || ip.Unmap().Is4() {
		return host
	}
	prefix, err := ip.Prefix(peerPrefix)
	if err != nil {
		return host
	}
	return prefix.String()
}

// wait is how long a peer is locked out from now; 0 if it is not.
func (p *peers) wait(name string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.all[name]; e != nil {
		return max(0, e.Value.(*peer).until.Sub(now))
	}
	return 0
}

// failed notes that a peer has shown a bad token.
func (p *peers) failed(name string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.all[name]
	if e == nil {
		if p.all == nil {
			p.all = map[string]*list.Element{}
		}
		if len(p.all) >= maxPeers {
			last := p.order.Back()
			delete(p.all, p.order.Remove(last).(*peer).name)
		}
		e = p.order.PushFront(&peer{name: name, limit: rate.NewLimiter(rate.Every(time.Minute/failures), failBurst)})
		p.all[name] = e
	}
	p.order.MoveToFront(e)
	if one := e.Value.(*peer); !one.limit.AllowN(now, 1) {
		one.until = now.Add(lockedOut)
	}
}
