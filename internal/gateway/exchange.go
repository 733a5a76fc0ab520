package gateway

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/gateway/session"
	"github.com/everline/everline/internal/message"
	"github.com/everline/everline/internal/tracing"
	"github.com/everline/everline/internal/wire"
)

// An exchange is one message on its way through the gateway: the message, the
// session that it came in, and where what belongs to it goes. Its transport
// builds it once, and nothing in it changes but asked, sent and verdict.
type exchange struct {
	*message.Message
	sess    *session.Session              // the legacy session; on stdio, which cancels by message, of modern requests too; else nil
	out     session.Outlet                // takes what goes out before the answer; nil: the client takes nothing
	gone    <-chan struct{}               // closed when the client of this exchange has gone; nil on stdio
	reply   followed                      // the response that the answer belongs to; nil where answers share a stream
	held    *claim                        // what the body holds of the budget; nil for nothing
	request *http.Request                 // that it came with; nil on stdio
	began   time.Time                     // when it had been read
	asked   atomic.Bool                   // a server is asked: the hub counts it; set on the way
	sent    []func()                      // called once the answer is out; added to on the way
	verdict atomic.Pointer[tracing.Facts] // of its call, where durations are measured; nil if there was none
	tracked bool                          // the transport has registered it as in flight, before the next message was read

	// Of modern requests over HTTP.
	client uint64 // who sends it, as its connection tells; 0: it does not
	name   []byte // the session that the request names, raw; nil for none

	// Of tools/call.
	target everline.Target // the zero value if no tool has the name
	keep   time.Duration   // how long its outcome is kept; 0: not at all
}

// isSent is called by the transport once the answer is out.
func (x *exchange) isSent() {
	for _, fn := range x.sent {
		fn()
	}
}

// A followed response tells whether a client that lost it has come back for it.
type followed interface{ followed() bool }

// known tells whether the tool that is called is one that is published.
func (x *exchange) known() bool { return x.target.Server != "" }

// wantsProgress tells whether the client has asked for progress, and can be told.
func (x *exchange) wantsProgress() bool { return x.Fields.Meta.ProgressToken != nil && x.out != nil }

// addr is the connection's other end; "" where that has none.
func (x *exchange) addr() string {
	if x.request == nil {
		return ""
	}
	return x.request.RemoteAddr
}

// present tells whether the client that asked still waits for the answer, here or
// on another stream.
func (x *exchange) present() bool {
	select {
	case <-x.gone:
		return x.reply != nil && x.reply.followed()
	default:
		return true
	}
}

// sessionName is the name of the session that a modern request over HTTP is of.
func (x *exchange) sessionName() (string, bool) { return wire.Text(x.name) }
