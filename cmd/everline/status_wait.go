package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/daemon"
	"github.com/everline/everline/internal/typed"
)

// statusPoll is how often --wait looks.
const statusPoll = 50 * time.Millisecond

// takeUpLimit is how long --wait gives everline to see what was just written
// into its files.
const takeUpLimit = 5 * time.Second

// awaitStatus asks for the status, again and again until the wanted state is
// there where one was named.
func (a *app) awaitStatus(ctx context.Context, name string, state event.State, timeout time.Duration) (admin.Status, error) {
	if state != "" {
		if _, known := looks[state]; !known {
			return admin.Status{}, unknownState(state)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	tick := time.NewTicker(statusPoll)
	defer tick.Stop()
	told := a.waitingLine()
	defer told("")
	var last []admin.Server
	var absent error // it has not been there yet
	takeUp := time.Now().Add(takeUpLimit)
	soon := func(st admin.Status, name string) bool { return time.Now().Before(takeUp) && takesUp(st, name) }
	for {
		st, err := a.statusWith(ctx, name)
		asked := only(st.Servers, name)
		if name == "" {
			asked = awaited(asked, state)
		}
		switch stuck := stuckOne(asked, state); {
		case err == nil && (state == "" || allIn(asked, state)):
			return st, nil
		case err == nil && name != "" && restsWell(asked[0], state):
			fmt.Fprintf(a.stderr, "%s is idle: its next call starts it\n", name)
			return st, nil
		case err == nil && stuck != nil && !soon(st, stuck.Name):
			return st, stuckFault(*stuck)
		case err == nil:
			last, absent = asked, nil
			told(lateOnes(asked, state))
		case state != "" && errors.Is(err, admin.ErrNotRunning):
			absent = err // it may be about to start
			told("everline does not run yet")
		case state != "" && fault.KindOf(err) == fault.NotFound && soon(st, name):
			absent = err
			told("everline has not applied the configuration yet")
		case ctx.Err() == nil:
			return st, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if absent != nil {
				return st, absent
			}
			return st, notYet(last, state, timeout)
		}
	}
}

// awaited leaves out the servers that come to a state only if somebody enables
// or calls them first.
func awaited(servers []admin.Server, state event.State) []admin.Server {
	var left []admin.Server
	for _, s := range servers {
		if s.State == state || !s.State.Off() && !isUnused(s) {
			left = append(left, s)
		}
	}
	return left
}

// isUnused reports whether nothing but a call starts an idle server: one that was
// never listed is started by itself.
func isUnused(s admin.Server) bool { return s.State == event.StateIdle && s.CatalogAt != nil }

// restsWell reports whether a server that is waited for is as good as connected.
func restsWell(s admin.Server, state event.State) bool {
	return state == event.StateConnected && isUnused(s)
}

// isStuck reports whether nobody but the user will bring a server to another state.
func isStuck(s admin.Server) bool {
	switch s.State {
	case event.StateDisabled, event.StateDisabling, event.StateMisconfigured, event.StateAuthRequired:
		return true
	case event.StateFailed:
		return s.NextAttempt == nil
	default:
		return false
	}
}

// stuckOne is one of the servers that are not in the state, if all of those are
// stuck; nil if not.
func stuckOne(servers []admin.Server, state event.State) (stuck *admin.Server) {
	for i, s := range servers {
		switch {
		case s.State == state || s.State == event.StateDisabling && state == event.StateDisabled:
		case !isStuck(s):
			return nil
		case stuck == nil:
			stuck = &servers[i]
		}
	}
	return stuck
}

// takesUp reports whether a server can be used as the files have it now, which
// everline has then only not taken up yet.
func takesUp(st admin.Status, name string) bool {
	if st.ConfigError != nil || len(st.Config) == 0 || slices.ContainsFunc(st.Config, daemon.ReadOnce) {
		return false
	}
	cfg, err := config.Load(st.Config...)
	if err != nil {
		return false
	}
	s, there := cfg.Server(name)
	if !there || s.Err != nil || s.Disabled {
		return false
	}
	for _, now := range only(st.Servers, name) {
		return now.State == event.StateMisconfigured && now.CauseKind != nil && *now.CauseKind == fault.Invalid.String()
	}
	return true
}

func stuckFault(s admin.Server) error {
	f := awayFault(s)
	f.Op = "wait"
	return f
}

func unknownState(state event.State) error {
	var states []string
	for s := range looks {
		states = append(states, string(s))
	}
	remedy := "everline status --help"
	if near := typed.Nearest(string(state), states); near != "" {
		remedy = "--wait " + near
	}
	return usage(remedy, "no state is called %q", state)
}

func notYet(servers []admin.Server, state event.State, timeout time.Duration) error {
	return &fault.Fault{
		Kind: fault.Deadline, Op: "wait", Remedy: "everline status",
		Err: fmt.Errorf("not %s after %s: %s", state, timeout, lateOnes(servers, state)),
	}
}

// lateOnes are the servers that are not in the wanted state, and what is.
func lateOnes(servers []admin.Server, state event.State) string {
	if len(servers) == 0 {
		return "everline has reported no server yet"
	}
	var late []string
	for _, s := range servers {
		if s.State != state {
			late = append(late, shownName(s.Name)+" is "+string(s.State))
		}
	}
	return strings.Join(late, ", ")
}

func allIn(servers []admin.Server, state event.State) bool {
	for _, s := range servers {
		if s.State != state {
			return false
		}
	}
	return true
}
