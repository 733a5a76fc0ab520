package gateway

import (
	"strconv"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/gateway/session"
	"github.com/everline/everline/internal/mcp"
)

// A sessionUse is what one call uses of a session whose servers serve it: those
// that isolate sessions have a generation for each.
type sessionUse struct {
	sess     *session.Session  // nil: the call's alone
	isolated *everline.Session // that of sess, or the call's
	end      func()
	task     bool // a task goes on, and ends it; valid where sess is nil
}

// over is the end of the call.
func (u *sessionUse) over() {
	if !u.task {
		u.end()
	}
}

// useSession says whose generations serve a modern call, and for whom it is made.
func (svc *service) useSession(x *exchange) (sessionUse, *caller, error) {
	if x.sess != nil {
		return sessionUse{x.sess, &x.sess.Isolated, func() {}, false}, x.caller(x.sess), nil
	}
	if x.name == nil {
		c := x.caller(nil)
		isolated := &everline.Session{Client: c, Capabilities: c.serves.Declaration}
		return sessionUse{nil, isolated, isolated.End, false}, c, nil
	}
	s, err := svc.named(x)
	if err != nil {
		return sessionUse{}, nil, err
	}
	return sessionUse{s, &s.Isolated, func() { svc.sessions.Unpin(s) }, false}, x.caller(s), nil
}

// named returns the pinned session that a modern request names, a new one where
// there is none.
func (svc *service) named(x *exchange) (*session.Session, error) {
	name, ok := x.sessionName()
	if !ok || len(name) < leastResultID || len(name) > mostResultID {
		f := fault.New(fault.Invalid, x.Method, mcp.MetaSession+" must be an unguessable string of "+
			strconv.Itoa(leastResultID)+" to "+strconv.Itoa(mostResultID)+" characters")
		f.Outcome = fault.NotSent
		return nil, f
	}
	s := svc.sessions.Named(name)
	if s == nil {
		svc.noRoom(x.refusal())
		f := fault.New(fault.Overloaded, x.Method, "too many sessions are in use")
		f.Outcome, f.RetryAfter = fault.NotSent, soon
		return nil, f
	}
	return s, nil
}

// pinNamed is named for a session that need not be there; nil if it is not.
func (svc *service) pinNamed(x *exchange) *session.Session {
	name, ok := x.sessionName()
	if !ok {
		return nil
	}
	return svc.sessions.PinNamed(name)
}

// noticeNamed takes a notification of a named session. Only a cancel says
// something: over HTTP the end of the response is the cancel, but for a request
// that an interim result has answered already.
func (svc *service) noticeNamed(x *exchange) {
	if x.Method != mcp.NotifyCancelled || x.Fields.RequestID == nil {
		return
	}
	if s := svc.pinNamed(x); s != nil {
		defer svc.sessions.Unpin(s)
		svc.inputs.revoke(s.ID(), x.Fields.RequestID)
	}
}

// endNamed ends a named session: its client has said that it is gone.
func (svc *service) endNamed(name string) {
	s := svc.sessions.PinNamed(name)
	if s == nil {
		svc.tasks.Forget(session.OwnerOfName(name)) // it was put away, or is of an everline before this one
		return
	}
	defer svc.sessions.Unpin(s)
	svc.sessions.Remove(s)
	svc.inputs.forget(s.ID())
}
