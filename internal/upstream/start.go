package upstream

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/transport"
)

const (
	// silenceMeansLegacy is how long a stdio server may think about the probe
	// (specification 2026-07-28, basic/transports/stdio, "Backward
	// Compatibility"). A modern server that was slower refuses initialize,
	// and is asked again.
	silenceMeansLegacy = 2 * time.Second
	// httpSilence is the same for a URL, where a server may be far.
	httpSilence = 10 * time.Second
	// knownSilence is the same for a server that was modern in an earlier life,
	// over any transport.
	knownSilence = 10 * time.Second
	// lateAnswer is how long a pipe's probe that was not answered in time stays
	// open once the handshake is over. A server reads in order: it has the
	// probe, then, and answers soon if it ever does.
	lateAnswer = 5 * time.Second
	// abandonTimeout bounds the end of what a failed start has opened.
	abandonTimeout = 5 * time.Second
	// sessionWait is how long the answer to initialize is waited for when the
	// start has been given up, so that its session can be ended.
	sessionWait = time.Second
)

// Start opens the transport, finds the server's era and shakes hands. ctx and
// the server's StartupTimeout bound that alone. Every error is a *fault.Fault,
// and nothing is alive then.
func Start(ctx context.Context, opts Options) (*Upstream, error) {
	u := newUpstream(opts)
	if d := opts.Server.StartupTimeout; d > 0 {
		bounded, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		ctx = bounded
	}
	if f := u.connect(ctx); f != nil {
		u.abandon()
		return nil, u.blame("start", f)
	}
	if u.late != nil {
		time.AfterFunc(lateAnswer, u.late.giveUp) // of no effect if the upstream has ended before
	}
	method := mcp.Ping
	if u.era.Modern {
		method = mcp.ServerDiscover
	}
	u.probe.Store(&method)
	u.modern.Store(u.era.Modern)
	u.mute.Store(u.era.Modern && u.era.Transport == transport.HTTP)
	u.spawn(u.watch) // ends with the link or the upstream
	if u.era.Modern {
		u.listenForLists()
	}
	return u, nil
}

// connect goes the way that an earlier life found, and finds one anew if that
// is refused or unknown. A server that agreed to the version and refuses what
// comes next is what it was: to ask it anew would cost a second session.
func (u *Upstream) connect(ctx context.Context) *fault.Fault {
	if e := u.opts.Era; e.Version != "" && u.allows(e.Transport) {
		f := u.retrace(ctx, e)
		if agreed := u.era.Version != ""; f == nil || agreed || !refuted(f) {
			return f
		}
		u.drop()
	}
	switch u.kind() {
	case transport.HTTP:
		return u.findHTTP(ctx)
	case transport.SSE:
		return u.openLegacy(ctx, transport.SSE)
	default:
		return u.findStdio(ctx)
	}
}

// kind is the transport that the configuration names; the first to try where
// it leaves that open.
func (u *Upstream) kind() transport.Kind {
	switch s := &u.opts.Server; {
	case s.Transport == "stdio" || s.Transport == "" && s.Command != "":
		return transport.Stdio
	case s.Transport == "sse":
		return transport.SSE
	case s.Transport == "http" || s.Transport == "auto" || s.URL != "":
		return transport.HTTP
	default:
		return transport.Memory
	}
}

// undecided tells whether the configuration leaves the transport of a URL open.
func (u *Upstream) undecided() bool {
	return u.opts.Server.Transport == "auto" || u.opts.Server.Transport == "" && u.opts.Server.URL != ""
}

// allows tells whether the configuration still allows a remembered transport.
func (u *Upstream) allows(k transport.Kind) bool {
	return k == u.kind() || k == transport.SSE && u.undecided()
}

// retrace shakes hands as an earlier life did.
func (u *Upstream) retrace(ctx context.Context, e Era) *fault.Fault {
	if f := u.dial(ctx, e.Transport); f != nil {
		return f
	}
	if !e.Modern {
		u.era.Answered = e.Answered
		return u.legacy(ctx, e.Version)
	}
	found := u.probeFor(ctx, knownSilence)
	if found.silent() && ctx.Err() == nil {
		return u.legacyAfter(ctx, found)
	}
	return u.settle(ctx, found)
}

// refuted tells whether a failure says that the server is not what it was: it
// answered, and refused.
func refuted(f *fault.Fault) bool {
	switch f.Kind {
	case fault.RPC, fault.NoVersion, fault.Protocol, fault.SessionSuspect, fault.SessionLost:
		return true
	case fault.HTTPStatus:
		return f.Status < http.StatusInternalServerError && f.Status != http.StatusUnauthorized
	default:
		return false
	}
}

// findStdio probes a child. Whatever is no modern answer, silence too, means
// legacy; a child that ends on the probe, or once it has answered it, is
// started again and not probed, unless that answer came late and was modern.
func (u *Upstream) findStdio(ctx context.Context) *fault.Fault {
	if f := u.dial(ctx, u.kind()); f != nil {
		return f
	}
	silence := silenceMeansLegacy
	if u.opts.Era.Modern {
		silence = knownSilence
	}
	found := u.probeFor(ctx, silence)
	if found.verdict != notModern {
		return u.settle(ctx, found)
	}
	if !u.linkEnded(found.fault) {
		f := u.legacyAfter(ctx, found)
		if agreed := u.era.Version != ""; f == nil || agreed || !u.linkEnded(f) {
			return f
		}
	}
	u.drop()
	if u.provedModern() {
		return u.modernAfterAll(ctx)
	}
	f := u.openLegacy(ctx, u.kind())
	u.era.Answered = !found.silent() // an end after a silence may have been any crash
	return f
}

// provedModern tells whether a server whose link has been dropped had answered
// the probe late, as a modern one.
func (u *Upstream) provedModern() bool {
	if u.late == nil {
		return false
	}
	<-u.late.over // ends with the link
	return u.late.modern
}

// modernAfterAll starts a modern server again that has ended on initialize.
func (u *Upstream) modernAfterAll(ctx context.Context) *fault.Fault {
	if f := u.dial(ctx, u.kind()); f != nil {
		return f
	}
	return u.settle(ctx, u.probeFor(ctx, knownSilence))
}

// linkEnded tells whether the link has ended, in particular with its process.
func (u *Upstream) linkEnded(f *fault.Fault) bool {
	if f != nil && (f.Kind == fault.Exited || f.Kind == fault.Broken) {
		return true
	}
	select {
	case <-u.link.conn.Done():
		return true
	default:
		return false
	}
}

// findHTTP tries modern Streamable HTTP, then legacy, then, where the
// configuration leaves it open, HTTP+SSE. What says nothing about the
// protocol (the network, 401, 5xx) ends the attempt.
func (u *Upstream) findHTTP(ctx context.Context) *fault.Fault {
	if f := u.dial(ctx, transport.HTTP); f != nil {
		return f
	}
	found := u.probeFor(ctx, httpSilence)
	if found.verdict != notModern {
		return u.settle(ctx, found)
	}
	if f := found.fault; f != nil && !saysLegacy(f) {
		return f
	}
	f := u.legacyAfter(ctx, found)
	if f == nil || !u.undecided() || !noStreamableHTTP(f) {
		return f
	}
	u.drop()
	if sse := u.openLegacy(ctx, transport.SSE); sse != nil {
		return f // the first refusal explains more than that of the last resort
	}
	return nil
}

// saysLegacy tells whether the refusal of the probe may be that of a legacy
// server: any that a server's own code makes. 502, 503 and 504 are made in
// front of it.
func saysLegacy(f *fault.Fault) bool {
	switch f.Kind {
	case fault.Protocol, fault.SessionSuspect, fault.SessionLost, fault.Deadline:
		return true
	case fault.HTTPStatus:
		return f.Status != http.StatusUnauthorized && f.Status <= http.StatusNotImplemented
	default:
		return false
	}
}

// noStreamableHTTP tells whether initialize was refused in the way of a URL
// that is not Streamable HTTP.
func noStreamableHTTP(f *fault.Fault) bool {
	return f.Kind == fault.HTTPStatus &&
		slices.Contains([]int{http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed}, f.Status)
}

// probeFor asks server/discover and waits at most d for an answer.
func (u *Upstream) probeFor(ctx context.Context, d time.Duration) finding {
	probe, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return u.discover(probe)
}

// settle goes on with what the probe has found out.
func (u *Upstream) settle(ctx context.Context, found finding) *fault.Fault {
	switch {
	case found.verdict == legacyOffered:
		u.era.Answered = true
		return u.legacy(ctx, found.version)
	case found.verdict == notModern && found.fault == nil:
		return errNotModern()
	}
	return found.fault
}

// legacyAfter shakes hands with a server that seems to be a legacy one. If it
// refuses and the probe was not answered, it is asked again: it may have been
// slow to start.
func (u *Upstream) legacyAfter(ctx context.Context, found finding) *fault.Fault {
	u.era.Answered = !found.silent()
	f := u.legacy(ctx, "")
	if f == nil || f.Kind != fault.RPC {
		return f
	}
	if !found.silent() && !mcp.IsModernCode(f.RPC.Code) {
		return f
	}
	again := u.discover(ctx)
	if again.verdict == notModern {
		return f
	}
	return u.settle(ctx, again)
}

// openLegacy opens a transport and shakes hands without a probe.
func (u *Upstream) openLegacy(ctx context.Context, k transport.Kind) *fault.Fault {
	if f := u.dial(ctx, k); f != nil {
		return f
	}
	u.era.Answered = true // by the end of its process, or by the refusal of a URL
	return u.legacy(ctx, "")
}

// dial opens one transport and makes it the upstream's link.
func (u *Upstream) dial(ctx context.Context, k transport.Kind) *fault.Fault {
	open := u.opts.Open
	if open == nil {
		open = u.openTransport
	}
	l, began := &link{ready: make(chan struct{})}, time.Now()
	conn, err := open(ctx, k, transport.Options{
		Inbound:    func(in transport.Inbound) { u.inbound(l, in) },
		Stderr:     u.opts.Stderr,
		Spawned:    u.opts.Spawned,
		MaxMessage: u.opts.Server.MaxMessage,
		Faults:     u.opts.Faults,
	})
	if err != nil {
		return u.blame("start", err)
	}
	u.phases.open(k, began)
	l.conn = conn
	close(l.ready)
	u.link = l
	u.era.Transport = k
	if u.opts.Linked != nil {
		u.opts.Linked(func() transport.Info { return u.describe(conn) })
	}
	return nil
}

// drop ends the link that the handshake does not go on with.
func (u *Upstream) drop() {
	if u.link == nil {
		return
	}
	// Not bounded by the start's context: that may have ended, and nothing may
	// stay alive.
	ctx, cancel := context.WithTimeout(context.Background(), abandonTimeout)
	defer cancel()
	_ = u.link.conn.Close(ctx) // the start's own failure is what is told
	u.link = nil
}

// abandon leaves nothing alive of a start that failed.
func (u *Upstream) abandon() {
	u.mu.Lock()
	u.closed = true
	u.mu.Unlock()
	u.end(nil)
	u.stop()
	u.drop()
	u.work.Wait()
}
