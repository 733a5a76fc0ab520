package fleet

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/slot"
)

// speaksBoth tells whether the server is spoken to in the modern era and can be
// spoken to in the older one. What is known of it goes by its own words, until it
// refuses.
func (m *member) speaksBoth() bool {
	e := m.era.Load()
	if e == nil || !e.Modern || m.oneEra.Load() {
		return false
	}
	return m.spec.Eras == config.ErasBoth || m.spec.Eras != config.ErasModern && e.Older
}

var errNotAsked = errors.New("the server has no session in the older revisions over which it could ask its client")

// older is what the start of a lane has come to. A server that refuses the older
// era, or cannot ask in it, is not asked again by this generation of the shared slot.
func (st *starter) older(ctx context.Context, shared *member, up slot.Upstream, err error) (slot.Upstream, error) {
	if err == nil && up.Info().Sessionless {
		_ = up.Close(ctx) // it has no session that could stay
		err = &fault.Fault{Kind: fault.NoVersion, Op: mcp.Initialize, Outcome: fault.Answered, Err: errNotAsked}
	}
	f := fault.From("start", err)
	if f == nil || !refusesOlder(f) {
		return up, err
	}
	shared.oneEra.Store(true)
	c := *f
	c.Kind = fault.NoVersion // nothing that trying again would mend
	return nil, &c
}

// refusesOlder tells whether a server has answered the handshake of the older era
// in the way of one that does not speak it.
func refusesOlder(f *fault.Fault) bool {
	switch f.Kind {
	case fault.RPC, fault.NoVersion, fault.Protocol:
		return true
	case fault.HTTPStatus:
		return f.Status >= http.StatusBadRequest && f.Status < http.StatusInternalServerError
	default:
		return false
	}
}

// asked notes that a server asks its clients in the way of the older revisions.
func (st *starter) asked(m *member) {
	if m.speaksBoth() && !m.asks.Swap(true) {
		st.emit(event.OlderWanted{Head: event.Head{Time: time.Now(), Server: m.name, Gen: m.slot.View().State.Serving}})
		st.touch(m.name) // it is kept on disk
	}
}

// failureText is what a server says of a call that it has answered and that failed;
// nil of another.
func failureText(got *slot.Answer, err error) []byte {
	f := fault.From("call", err)
	switch {
	case f == nil && got.IsError():
		return got.Raw
	case f != nil && f.RPC != nil:
		return []byte(f.RPC.Message)
	default:
		return nil
	}
}

var questions = [][]byte{[]byte(mcp.ElicitationCreate), []byte(mcp.SamplingCreateMessage), []byte(mcp.RootsList), []byte(mcp.ModernVersion)}

// namesQuestion tells whether a failure speaks of a request of a server, or of the era.
func namesQuestion(text []byte) bool {
	for _, q := range questions {
		if bytes.Contains(text, q) {
			return true
		}
	}
	return false
}

// laneSpec is the configuration of a session's slot at a server that is spoken to
// in the modern era.
func laneSpec(s config.Server) config.Server {
	s = sessionSpec(s)
	s.Eras = config.ErasLegacy
	return s
}
