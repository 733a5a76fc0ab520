// Package watch notices that what a server lacks is there again: a port that
// refused, or a file that its command names. It sends no byte, starts no server
// and judges none.
package watch

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/everline/everline/fault"
)

const (
	quick = 100 * time.Millisecond // between two looks at first
	slow  = time.Second            // between two looks later
)

// interval draws the time until the next look; often ends the quick ones.
func interval(now, often time.Time) time.Duration {
	d := slow
	if now.Before(often) {
		d = quick
	}
	return d/2 + rand.N(d/2)
}

// An Address is what a connection is opened to. The zero Address is none.
type Address struct{ Network, Host string }

// Refused returns where a server's connection was refused: what the URL names,
// or the proxy between. Every other failure gives none: a host that is silent
// is not asked ten times a second.
func Refused(rawURL string, err error) Address {
	var op *net.OpError
	if !errors.As(err, &op) {
		return Address{}
	}
	no := fault.Refused(err)
	switch {
	case op.Net == "unix" && op.Addr != nil && (no || errors.Is(err, fs.ErrNotExist)):
		return Address{"unix", op.Addr.String()}
	case !no:
		return Address{}
	case op.Op != "dial": // the connection to a proxy, which the inner error names
		var inner *net.OpError
		if !errors.As(op.Err, &inner) || inner.Addr == nil {
			return Address{}
		}
		return Address{"tcp", inner.Addr.String()}
	}
	u, err := url.Parse(rawURL)
	if err != nil || u.Hostname() == "" {
		return Address{}
	}
	port := u.Port()
	switch {
	case port != "":
	case strings.EqualFold(u.Scheme, "https"):
		port = "443"
	default:
		port = "80"
	}
	return Address{"tcp", net.JoinHostPort(u.Hostname(), port)}
}

// Ports looks at ports that refused. All who wait for one address share one
// look. The zero value is ready to use.
type Ports struct {
	// Dial opens a connection; nil: the network's.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	mu   sync.Mutex // guards the rest; nothing waits under it
	open map[Address]*port
}

// A port is one address that is looked at, by one goroutine, for as long as
// somebody waits.
type port struct {
	waiting int       // who waits; at 0 it is not in Ports.open any more
	often   time.Time // the looks are quick until then; the latest that any of them asked for
	back    chan struct{}
	cancel  context.CancelFunc
	ended   chan struct{} // closed when the goroutine has ended
}

// Wait returns true once somebody listens at the address, and false when ctx
// ends. The looks are quick until often.
func (p *Ports) Wait(ctx context.Context, addr Address, often time.Time) bool {
	one := p.join(addr, often)
	defer p.leave(addr, one)
	select {
	case <-one.back:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p *Ports) join(addr Address, often time.Time) *port {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.open[addr]
	if one == nil {
		ctx, cancel := context.WithCancel(context.Background())
		one = &port{back: make(chan struct{}), cancel: cancel, ended: make(chan struct{})}
		if p.open == nil {
			p.open = map[Address]*port{}
		}
		p.open[addr] = one
		go p.look(ctx, addr, one) // ended by the last who leaves, who waits for it
	}
	one.waiting++
	if often.After(one.often) {
		one.often = often
	}
	return one
}

// leave takes one out. Who comes after a success looks for itself.
func (p *Ports) leave(addr Address, one *port) {
	p.mu.Lock()
	one.waiting--
	last := one.waiting == 0
	if last && p.open[addr] == one {
		delete(p.open, addr)
	}
	p.mu.Unlock()
	if last {
		one.cancel()
		<-one.ended
	}
}

// look connects again and again, until it succeeds or ctx ends.
func (p *Ports) look(ctx context.Context, addr Address, one *port) {
	defer close(one.ended)
	names := resolver{addr: addr}
	for {
		p.mu.Lock()
		often := one.often
		p.mu.Unlock()
		if !sleep(ctx, interval(time.Now(), often)) {
			return
		}
		if !p.listens(ctx, addr.Network, names.addresses(ctx)) {
			continue
		}
		p.mu.Lock()
		if p.open[addr] == one {
			delete(p.open, addr)
		}
		p.mu.Unlock()
		close(one.back)
		return
	}
}

// connectLimit bounds one bare connect: a port that is back answers immediately.
const connectLimit = 500 * time.Millisecond

// listens tells whether any of the addresses takes a connection.
func (p *Ports) listens(ctx context.Context, network string, addrs []string) bool {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	dial := p.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	for _, addr := range addrs {
		conn, err := dial(ctx, network, addr)
		if err == nil {
			_ = conn.Close() // nothing was written
			return true
		}
	}
	return false
}

// A resolver keeps what a name means for a while, so that ten looks a second
// are not ten questions to a name server.
type resolver struct {
	addr  Address
	addrs []string
	until time.Time
}

const resolveEvery = 5 * time.Second

func (r *resolver) addresses(ctx context.Context) []string {
	host, port, err := net.SplitHostPort(r.addr.Host)
	if r.addr.Network != "tcp" || err != nil || net.ParseIP(host) != nil {
		return []string{r.addr.Host}
	}
	if now := time.Now(); now.After(r.until) {
		// Not cut short by ctx: a look-up that is given up goes on behind our back.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectLimit)
		defer cancel()
		ips, err := net.DefaultResolver.LookupHost(ctx, host)
		if err == nil {
			r.addrs = r.addrs[:0]
			for _, ip := range ips {
				r.addrs = append(r.addrs, net.JoinHostPort(ip, port))
			}
		}
		r.until = now.Add(resolveEvery)
	}
	return r.addrs
}

// sleep tells whether ctx lasted.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
