package everline

import (
	"context"
	"errors"
	"slices"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
)

// Add puts one more server into the configuration that is applied, behind the
// others; see config.NewServer. No change of the configuration that is made at
// the same time is lost. It returns once the server has its place: Connected
// waits for it to be up. A name that is taken is refused with kind Conflict.
func (h *Hub) Add(ctx context.Context, server config.Server) error {
	return h.edit(ctx, func(servers []config.Server, at int) ([]config.Server, error) {
		if at >= 0 {
			return nil, &fault.Fault{Kind: fault.Conflict, Op: "add", Server: server.Name, Err: errors.New("there is a server of this name already")}
		}
		return append(servers, server), nil
	}, server.Name)
}

// Remove takes one server out of the configuration that is applied: it is
// unpublished immediately, and ended behind that. No change that is made at
// the same time is lost. An unknown name is refused with kind NotFound.
func (h *Hub) Remove(ctx context.Context, server string) error {
	return h.edit(ctx, func(servers []config.Server, at int) ([]config.Server, error) {
		if at < 0 {
			return nil, fault.New(fault.NotFound, "remove", "no server is called "+server)
		}
		return slices.Delete(servers, at, at+1), nil
	}, server)
}

// edit changes the list of servers; change gets a copy and the place of the
// named server in it, -1 if there is none.
func (h *Hub) edit(ctx context.Context, change func(servers []config.Server, at int) ([]config.Server, error), name string) error {
	_, err := h.fleet.Edit(ctx, func(cfg *config.Config) (*config.Config, error) {
		next := *cfg
		servers := slices.Clone(cfg.Servers)
		var err error
		next.Servers, err = change(servers, slices.IndexFunc(servers, func(s config.Server) bool { return s.Name == name }))
		if f := next.Check(); f != nil && err == nil {
			err = f
		}
		return &next, err
	})
	h.notifier.reconfigured()
	return err
}

// Connected waits until the server is connected, and fails as soon as an
// attempt has failed, with its cause: a *fault.Fault. It waits for an attempt
// that is running, starts an idle server, and otherwise changes nothing; what
// has failed is tried again as ever. ctx bounds it.
func (h *Hub) Connected(ctx context.Context, server string) error {
	if f := h.closed("wait"); f != nil {
		return f
	}
	s := h.fleet.Slot(server)
	if s == nil {
		return fault.New(fault.NotFound, "connect", "no server is called "+server)
	}
	before := s.View().State.Attempt
	for {
		v := s.View()
		switch st := v.Seen(); {
		case st == event.StateConnected:
			return nilOr(h.fleet.Flush(ctx)) // what it offers is published, too
		case st == event.StateIdle:
			lease, err := s.Acquire(ctx)
			if err != nil {
				return fault.From("connect", err)
			}
			lease.Release(fault.New(fault.Canceled, "connect", "nothing was sent")) // says nothing of the link
			continue
		case v.State.Attempt > before || st != event.StateConnecting && st != event.StateReconnecting:
			return notConnected(h.status(v), v.Cause)
		}
		select {
		case <-v.Changed:
		case <-ctx.Done():
			return unsettled(h.status(v), ctx.Err())
		}
	}
}

func nilOr(err error) error {
	if err != nil {
		return fault.From("connect", err)
	}
	return nil
}

// notConnected is why a server that nothing is starting now is not connected.
func notConnected(st Status, cause *fault.Fault) *fault.Fault {
	if cause != nil {
		return cause
	}
	return &fault.Fault{Kind: fault.Unavailable, Op: "connect", Server: st.Name, State: string(st.State), Remedy: st.Remedy, Err: errors.New("the server is " + string(st.State))}
}
