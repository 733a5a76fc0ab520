package upstream

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/evidence"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/transport"
)

const (
	// stdioProbeTimeout is how long a stdio server may think about the probe
	// (specification 2026-07-28, basic/transports/stdio, "Backward
	// Compatibility"). A modern server that was slower refuses initialize,
	// and is asked again.
	stdioProbeTimeout = 2 * time.Second
	// httpProbeTimeout is the same for a URL, where a server may be far.
	httpProbeTimeout = 10 * time.Second
	// modernProbeTimeout is the same for a server that was modern in an earlier generation,
	// over any transport.
	modernProbeTimeout = 10 * time.Second
	// lateAnswer is how long a pipe's probe that was not answered in time stays
	// open once the handshake is over. A server reads in order: it has the
	// probe, then, and answers soon if it ever does.
	lateAnswer = 5 * time.Second
	// abandonTimeout bounds the end of what a failed start has opened.
	abandonTimeout = 5 * time.Second
)

// handshake opens a server's link, finds its era, and agrees on a version.
type handshake struct {
	*core
	inbound func(*link, transport.Inbound)
	phases  phases
	late    *lateProbe // a probe that was not answered in time; nil if there is none
}

// connect goes the way that an earlier generation found, and finds one anew if that
// is refused or unknown. A server that agreed to the version and refuses what
// comes next is what it was: to ask it anew would cost a second session.
func (h *handshake) connect(ctx context.Context) *fault.Fault {
	older := h.opts.Server.Eras == config.ErasLegacy
	if e := h.opts.Era; e.Version != "" && !(older && e.Modern) && h.allows(e.Transport) {
		f := h.retryKnownEra(ctx, e)
		if agreed := h.era.Version != ""; f == nil || agreed || !contradicts(f) {
			return f
		}
		h.drop()
	}
	switch {
	case older && h.kind() == transport.HTTP:
		return h.olderHTTP(ctx)
	case older:
		return h.openLegacy(ctx, h.kind())
	}
	switch h.kind() {
	case transport.HTTP:
		return h.findHTTP(ctx)
	case transport.SSE:
		return h.openLegacy(ctx, transport.SSE)
	default:
		return h.findStdio(ctx)
	}
}

// kind is the transport that the configuration names; the first to try where
// it leaves that open.
func (h *handshake) kind() transport.Kind {
	switch s := &h.opts.Server; {
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
func (h *handshake) undecided() bool {
	return h.opts.Server.Transport == "auto" || h.opts.Server.Transport == "" && h.opts.Server.URL != ""
}

// allows tells whether the configuration still allows a remembered transport.
func (h *handshake) allows(k transport.Kind) bool {
	return k == h.kind() || k == transport.SSE && h.undecided()
}

// retryKnownEra shakes hands as an earlier generation did.
func (h *handshake) retryKnownEra(ctx context.Context, e Era) *fault.Fault {
	if f := h.dial(ctx, e.Transport); f != nil {
		return f
	}
	if !e.Modern {
		h.era.Answered = e.Answered
		return h.legacy(ctx, e.Version)
	}
	found := h.probeFor(ctx, modernProbeTimeout)
	if found.silent() && ctx.Err() == nil {
		return h.legacyAfterProbe(ctx, found)
	}
	return h.conclude(ctx, found)
}

// contradicts tells whether a failure says that the server is not what it was: it
// answered, and refused.
func contradicts(f *fault.Fault) bool {
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
func (h *handshake) findStdio(ctx context.Context) *fault.Fault {
	if f := h.dial(ctx, h.kind()); f != nil {
		return f
	}
	silence := stdioProbeTimeout
	if h.opts.Era.Modern || h.opts.Server.Eras == config.ErasModern {
		silence = modernProbeTimeout
	}
	found := h.probeFor(ctx, silence)
	if found.verdict != notModern {
		return h.conclude(ctx, found)
	}
	if !h.linkEnded(found.fault) {
		f := h.legacyAfterProbe(ctx, found)
		if agreed := h.era.Version != ""; f == nil || agreed || !h.linkEnded(f) {
			return f
		}
	}
	h.drop()
	if h.provedModern() {
		return h.modernAfterAll(ctx)
	}
	f := h.openLegacy(ctx, h.kind())
	h.era.Answered = !found.silent() // an end after a silence may have been any crash
	return f
}

// provedModern tells whether a server whose link has been dropped had answered
// the probe late, as a modern one.
func (h *handshake) provedModern() bool {
	if h.late == nil {
		return false
	}
	<-h.late.over // ends with the link
	return h.late.modern
}

// modernAfterAll starts a modern server again that has ended on initialize.
func (h *handshake) modernAfterAll(ctx context.Context) *fault.Fault {
	if f := h.dial(ctx, h.kind()); f != nil {
		return f
	}
	return h.conclude(ctx, h.probeFor(ctx, modernProbeTimeout))
}

// linkEnded tells whether the link has ended, in particular with its process.
func (h *handshake) linkEnded(f *fault.Fault) bool {
	if f != nil && (f.Kind == fault.Exited || f.Kind == fault.Broken) {
		return true
	}
	select {
	case <-h.link.conn.Done():
		return true
	default:
		return false
	}
}

// findHTTP tries modern Streamable HTTP, then legacy, then, where the
// configuration leaves it open, HTTP+SSE. What says nothing about the
// protocol (the network, 401, 5xx) ends the attempt.
func (h *handshake) findHTTP(ctx context.Context) *fault.Fault {
	if f := h.dial(ctx, transport.HTTP); f != nil {
		return f
	}
	found := h.probeFor(ctx, httpProbeTimeout)
	if found.verdict != notModern {
		return h.conclude(ctx, found)
	}
	if f := found.fault; f != nil && (evidence.Tokenless(f) || !saysLegacy(f)) {
		return f
	}
	return h.orSSE(ctx, h.legacyAfterProbe(ctx, found))
}

// olderHTTP is findHTTP for the legacy era alone.
func (h *handshake) olderHTTP(ctx context.Context) *fault.Fault {
	return h.orSSE(ctx, h.openLegacy(ctx, transport.HTTP))
}

// orSSE tries HTTP+SSE where initialize over Streamable HTTP failed with f, and
// that says nothing against it.
func (h *handshake) orSSE(ctx context.Context, f *fault.Fault) *fault.Fault {
	if f == nil || !h.undecided() || !noStreamableHTTP(f) {
		return f
	}
	h.drop()
	if sse := h.openLegacy(ctx, transport.SSE); sse != nil {
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
func (h *handshake) probeFor(ctx context.Context, d time.Duration) finding {
	probe, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return h.discover(probe)
}

// conclude goes on with what the probe has found out.
func (h *handshake) conclude(ctx context.Context, found finding) *fault.Fault {
	switch {
	case found.verdict == legacyOffered:
		h.era.Answered = true
		return h.legacy(ctx, found.version)
	case found.verdict == notModern && found.fault == nil:
		return errNotModern()
	}
	return found.fault
}

// legacyAfterProbe shakes hands with a server that seems to be a legacy one. If it
// refuses and the probe was not answered, it is asked again: it may have been
// slow to start.
func (h *handshake) legacyAfterProbe(ctx context.Context, found finding) *fault.Fault {
	h.era.Answered = !found.silent()
	f := h.legacy(ctx, "")
	if f == nil || f.Kind != fault.RPC {
		return f
	}
	if !found.silent() && !mcp.IsModernCode(f.RPC.Code) {
		return f
	}
	again := h.discover(ctx)
	if again.verdict == notModern {
		return f
	}
	return h.conclude(ctx, again)
}

// openLegacy opens a transport and shakes hands without a probe.
func (h *handshake) openLegacy(ctx context.Context, k transport.Kind) *fault.Fault {
	if f := h.dial(ctx, k); f != nil {
		return f
	}
	h.era.Answered = true // by the end of its process, or by the refusal of a URL
	return h.legacy(ctx, "")
}

// dial opens one transport and makes it the upstream's link.
func (h *handshake) dial(ctx context.Context, k transport.Kind) *fault.Fault {
	l, began := &link{ready: make(chan struct{})}, time.Now()
	conn, err := h.opts.Open(ctx, k, transport.Options{
		Inbound:    func(msg transport.Inbound) { h.inbound(l, msg) },
		Stderr:     h.opts.Stderr,
		Spawned:    h.opts.Spawned,
		MaxMessage: h.opts.Server.MaxMessage,
		Injector:   h.opts.Faults,
	})
	if err != nil {
		f := h.blame("start", err)
		if k == transport.Stdio {
			h.phases.add(PhaseSpawn, began, f)
		}
		return f
	}
	h.phases.open(k, began)
	l.conn = conn
	close(l.ready)
	h.link = l
	h.era.Transport = k
	if h.opts.Linked != nil {
		h.opts.Linked(func() transport.Info { return h.describe(conn) })
	}
	return nil
}

// drop ends the link that the handshake does not go on with.
func (h *handshake) drop() {
	if h.link == nil {
		return
	}
	// Not bounded by the start's context: that may have ended, and nothing may
	// stay alive.
	ctx, cancel := context.WithTimeout(context.Background(), abandonTimeout)
	defer cancel()
	_ = h.link.conn.Close(ctx) // the start's own failure is what is told
	h.link = nil
}

// abandon leaves nothing alive of a start that failed.
func (h *handshake) abandon() {
	h.shut()
	h.end(nil)
	h.stop()
	h.drop()
	h.work.Wait()
}
