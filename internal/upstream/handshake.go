package upstream

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/evidence"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/transport"
	"github.com/everline/everline/internal/wire"
)

// verdict is what a probe says about the server's era.
type verdict uint8

const (
	notModern     verdict = iota // not known to be modern
	isModern                     // it is; a fault says why it does not work nevertheless
	legacyOffered                // it told which of our legacy versions it speaks
)

type finding struct {
	verdict verdict
	version string       // valid for legacyOffered
	fault   *fault.Fault // valid for notModern if the link failed, and for isModern
}

// silent tells whether the probe was not answered in time.
func (f *finding) silent() bool {
	return f.fault != nil && f.fault.Kind == fault.Deadline && !evidence.Tokenless(f.fault)
}

func errNotModern() *fault.Fault {
	return fault.New(fault.Protocol, mcp.ServerDiscover, "the server does not speak the modern protocol any more")
}

// discover asks server/discover, twice if the server names another version of
// ours, and takes the answer over if the server is modern.
func (h *handshake) discover(ctx context.Context) finding {
	version := mcp.ModernVersions[0]
	for range 2 {
		h.hello.envelope = newEnvelope(version, h.opts.Name, h.opts.Version)
		began := time.Now()
		msg, f := h.askProbe(ctx, append(member([]byte{'{'}, "_meta", mcp.HandshakeMeta()), '}'))
		h.phases.answer(PhaseEra, began, h.failure(mcp.ServerDiscover, &msg, f))
		switch {
		case f != nil:
			return finding{verdict: notModern, fault: f}
		case msg.Error == nil:
			return h.discovered(&msg, version)
		}
		refusal := h.refused(mcp.ServerDiscover, msg.Error)
		switch {
		case refusal.Kind != fault.RPC:
			return finding{verdict: isModern, fault: refusal}
		case !mcp.IsModernCode(refusal.RPC.Code):
			return finding{verdict: notModern}
		case refusal.RPC.Code != mcp.CodeUnsupportedVersion:
			return finding{verdict: isModern, fault: refusal}
		}
		supported := texts(wire.Get(msg.Error, "data", "supported"))
		if version = mcp.Newest(mcp.ModernVersions, supported); version == "" {
			return h.unsupported(supported)
		}
	}
	return finding{verdict: isModern, fault: h.noVersion(mcp.ServerDiscover, mcp.ModernVersions)}
}

// askProbe asks server/discover until ctx ends. On a pipe the request stays
// open beyond that, as silence is no verdict: a modern server that was slow to
// start answers late, and that is told to whoever starts the next generation.
func (h *handshake) askProbe(ctx context.Context, params []byte) (wire.Message, *fault.Fault) {
	if h.era.Transport == transport.HTTP || h.era.Transport == transport.SSE {
		return h.ask(ctx, mcp.ServerDiscover, params)
	}
	req, f := h.encode(&Call{Method: mcp.ServerDiscover, Params: params}, h.ids.Add(1))
	if f != nil {
		return wire.Message{}, f
	}
	type reply struct {
		msg wire.Message
		err error
	}
	open, cancel := context.WithCancel(h.ctx)
	late := &lateProbe{giveUp: cancel, over: make(chan struct{})}
	conn, inTime, tooLate := h.link.conn, make(chan reply), make(chan struct{})
	if !h.spawn(func() { // ends with the answer, the link, the upstream, or giveUp
		defer close(late.over)
		defer cancel()
		msg, err := conn.Call(open, req)
		select {
		case inTime <- reply{msg, err}:
		case <-tooLate:
			if late.modern = err == nil && saysModern(&msg); late.modern && h.opts.Modern != nil {
				h.opts.Modern()
			}
		}
	}) {
		cancel()
		return wire.Message{}, h.blame(mcp.ServerDiscover, fault.New(fault.Closed, mcp.ServerDiscover, "the start was given up"))
	}
	select {
	case r := <-inTime:
		if r.err != nil {
			return wire.Message{}, h.blame(mcp.ServerDiscover, r.err)
		}
		h.hear()
		return r.msg, nil
	case <-ctx.Done():
		close(tooLate)
		h.late = late
		return wire.Message{}, h.blame(mcp.ServerDiscover, ctx.Err())
	}
}

// A lateProbe is a probe that was not answered in time and is still open.
type lateProbe struct {
	giveUp context.CancelFunc
	over   chan struct{} // closed when it is not open any more
	modern bool          // it was answered, by a modern server; valid then
}

// saysModern tells whether an answer to the probe is that of a modern server.
func saysModern(msg *wire.Message) bool {
	if msg.Error != nil {
		code, _, _ := wire.StrictError(msg.Error)
		return mcp.IsModernCode(code)
	}
	return mcp.Newest(mcp.ModernVersions, texts(wire.Get(msg.Result, "supportedVersions"))) != ""
}

// unsupported decides about a server that refused the modern version. One
// that names a legacy version of ours is taken at its word.
func (h *handshake) unsupported(supported []string) finding {
	if v := mcp.Newest(mcp.LegacyVersions, supported); v != "" {
		return finding{verdict: legacyOffered, version: v}
	}
	return finding{verdict: isModern, fault: h.noVersion(mcp.ServerDiscover, supported)}
}

// discovered takes a DiscoverResult over. An answer that is none, as from a
// server that says yes to everything, means nothing.
func (h *handshake) discovered(msg *wire.Message, version string) finding {
	r := msg.Result
	if !wire.IsArray(wire.Get(r, "supportedVersions")) {
		return finding{verdict: notModern}
	}
	supported := texts(wire.Get(r, "supportedVersions"))
	agreed := mcp.Newest(mcp.ModernVersions, supported)
	if agreed == "" && len(supported) > 0 {
		return h.unsupported(supported)
	}
	if agreed == "" {
		agreed = version
	}
	h.hello.envelope = newEnvelope(agreed, h.opts.Name, h.opts.Version)
	h.greet(r, wire.Get(r, "_meta", mcp.MetaServerInfo))
	h.agree(agreed, true)
	h.era.Older = mcp.Newest(mcp.LegacyVersions, supported) != ""
	return finding{verdict: isModern}
}

// greet keeps what the server says of itself.
func (h *handshake) greet(result, serverInfo []byte) {
	if c := wire.Get(result, "capabilities"); wire.IsObject(c) {
		h.hello.capabilities = c
	}
	if wire.IsObject(serverInfo) {
		h.hello.serverInfo = serverInfo
	}
	h.hello.instructions, _ = wire.Text(wire.Get(result, "instructions"))
}

func (h *handshake) agree(version string, modern bool) {
	h.era.Version, h.era.Modern = version, modern
	h.era.Answered = h.era.Answered || modern
	h.link.conn.Agree(version, modern)
}

// legacy shakes hands with initialize, from the version first on ("" is the
// newest) down through ours while the server refuses the version itself.
func (h *handshake) legacy(ctx context.Context, first string) *fault.Fault {
	if h.opts.Server.Eras == config.ErasModern {
		return h.onlyModern()
	}
	h.hello = hello{}
	var refusal *fault.Fault
	tried := make([]string, 0, len(mcp.LegacyVersions))
	for version := first; len(tried) < len(mcp.LegacyVersions); {
		if version = untried(version, tried); version == "" {
			break
		}
		tried = append(tried, version)
		msg, f := h.initialize(ctx, version)
		if f == nil && msg.Error == nil {
			return h.initialized(ctx, &msg)
		}
		if f == nil {
			f = h.refused(mcp.Initialize, msg.Error)
		}
		if refusal == nil {
			refusal = f
		}
		again, next := otherVersion(f)
		if !again {
			break
		}
		version = next
	}
	return refusal
}

// untried returns version if it is one of ours and was not tried, or else the
// newest that was not; "" if all were.
func untried(version string, tried []string) string {
	if slices.Contains(mcp.LegacyVersions, version) && !slices.Contains(tried, version) {
		return version
	}
	for _, v := range mcp.LegacyVersions {
		if !slices.Contains(tried, v) {
			return v
		}
	}
	return ""
}

// otherVersion tells whether another version may be accepted where initialize
// was refused, and which, if the server names one: it is refused by the HTTP
// layer, or with an error that is about its params.
func otherVersion(f *fault.Fault) (again bool, version string) {
	if f.Kind == fault.HTTPStatus {
		return f.Status == http.StatusBadRequest, ""
	}
	if f.Kind != fault.RPC {
		return false, ""
	}
	supported := texts(wire.Get(f.RPC.Raw, "data", "supported"))
	version = mcp.Newest(mcp.LegacyVersions, supported)
	return version != "" || f.RPC.Code == mcp.CodeInvalidParams && len(supported) == 0, version
}

func (h *handshake) initialize(ctx context.Context, version string) (wire.Message, *fault.Fault) {
	params := member([]byte{'{'}, "protocolVersion", wire.AppendString(nil, version))
	params = member(append(params, ','), "capabilities", h.capabilities())
	params = member(append(params, ','), "clientInfo", clientInfo(h.opts.Name, h.opts.Version))
	params = member(append(params, ','), "_meta", mcp.HandshakeMeta())
	began := time.Now()
	msg, f := h.ask(ctx, mcp.Initialize, append(params, '}'))
	if err := ctx.Err(); err != nil && (f == nil || !evidence.Tokenless(f)) {
		msg, f = wire.Message{}, h.blame(mcp.Initialize, fault.From(mcp.Initialize, err))
	}
	h.phases.answer(PhaseInitialize, began, h.failure(mcp.Initialize, &msg, f))
	return msg, f
}

// failure is what a request of the handshake has failed with: no answer, or one that
// is an error.
func (h *handshake) failure(method string, msg *wire.Message, f *fault.Fault) *fault.Fault {
	if f == nil && msg.Error != nil {
		return h.rpcFault(method, msg.Error)
	}
	return f
}

// initialized takes an InitializeResult over and ends the handshake.
func (h *handshake) initialized(ctx context.Context, msg *wire.Message) *fault.Fault {
	if !wire.IsObject(msg.Result) {
		return h.blame(mcp.Initialize, fault.New(fault.Protocol, mcp.Initialize, "the server's result is no object"))
	}
	version, _ := wire.Text(wire.Get(msg.Result, "protocolVersion"))
	if !slices.Contains(mcp.LegacyVersions, version) {
		return h.noVersion(mcp.Initialize, []string{version})
	}
	h.greet(msg.Result, wire.Get(msg.Result, "serverInfo"))
	h.agree(version, false)
	frame := wire.AppendNotification(nil, mcp.NotifyInitialized, nil)
	err := h.link.conn.Send(ctx, frame)
	if ended := ctx.Err(); ended != nil {
		return h.blame(mcp.NotifyInitialized, fault.From(mcp.NotifyInitialized, ended))
	}
	h.hello.unheard = fault.From(mcp.NotifyInitialized, err)
	return nil
}

// onlyModern is the fault of a server that speaks no version which the
// configuration allows.
func (h *handshake) onlyModern() *fault.Fault {
	f := fault.New(fault.NoVersion, mcp.ServerDiscover, "the server does not speak "+mcp.ModernVersion+`, and "eras" allows no other version`)
	f.Remedy = `set "eras" of the server ` + h.opts.Server.Name + ` to "auto"`
	return h.blame(mcp.ServerDiscover, f)
}

func (h *handshake) noVersion(op string, theirs []string) *fault.Fault {
	ours := mcp.Versions
	f := fault.New(fault.NoVersion, op, "no common protocol version: the server speaks "+list(theirs)+", everline "+list(ours))
	f.Outcome = fault.Answered
	f.Remedy = "update the server, or everline"
	return h.blame(op, f)
}

func list(words []string) string {
	out := ""
	for i, w := range words {
		if i > 0 {
			out += ", "
		}
		out += w
	}
	if out == "" {
		return "none that it names"
	}
	return out
}

// sharedCapabilities are what a connection for all clients is offered by
// initialize. Over Streamable HTTP the stream tells whose call a request
// belongs to. Elsewhere it is certain only while one client has calls in
// flight; roots, which servers ask for at their start and keep, are not
// offered there at all.
const (
	httpCapabilities  = `{"elicitation":{"form":{},"url":{}},` + showsApps + `"roots":{},"sampling":{"context":{},"tools":{}}}`
	otherCapabilities = `{"elicitation":{"form":{},"url":{}},` + showsApps + `"sampling":{"context":{},"tools":{}}}`
	showsApps         = `"extensions":{` + mcp.DeclaredUI + `},` // a client that does not show them reads the text that goes with them
)

func (h *handshake) capabilities() []byte {
	switch {
	case wire.IsObject(h.opts.Capabilities):
		return h.opts.Capabilities
	case h.opts.Owner != nil:
		return []byte("{}")
	case h.era.Transport == transport.HTTP:
		return []byte(httpCapabilities)
	default:
		return []byte(otherCapabilities)
	}
}

// refused is the error with which a server refused the handshake.
func (h *handshake) refused(op string, raw []byte) *fault.Fault {
	f := h.rpcFault(op, raw)
	if !mcp.IsLoop(raw) {
		return f
	}
	return h.blame(op, &fault.Fault{
		Kind: fault.Invalid, Op: op, Outcome: fault.Answered,
		Err:    errors.New("this server is the same everline again"),
		Remedy: "remove the server " + h.opts.Server.Name + " from the configuration",
	})
}
