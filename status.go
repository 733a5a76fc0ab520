package everline

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/fleet"
	"github.com/everline/everline/internal/orphan"
	"github.com/everline/everline/internal/slot"
)

// LogLine is one line that a server's process wrote to stderr.
type LogLine = slot.Line

// An Orphan is a process of an earlier everline that was found alive.
type Orphan = orphan.Found

// Orphans returns the processes that an earlier everline on the same
// Options.StateDir had left behind: servers, and what they had started. They
// are ended before this one starts its first command.
func (h *Hub) Orphans() []Orphan { return h.fleet.Orphans() }

// A Problem is something that is wrong with what the hub itself keeps on disk,
// for as long as it is so. Its fields are
//
//	About  string    // "state", or "pins" for their lock file
//	Server string    // "" if it is about no server
//	Text   string    // a sentence
//	Remedy string    // what to type or do
//	Since  time.Time
type Problem = fleet.Problem

// Problems returns what is wrong with what is kept on disk, now: writes that
// have failed and not gone well since, and a lock file that does not say what is
// in force.
func (h *Hub) Problems() []Problem { return h.fleet.Problems() }

// tableLimit is how long a status waits for the table to show what it tells of.
// A merge takes milliseconds; a status with older counts is better than none.
const tableLimit = time.Second

// Status returns what is known about every server, in the order of the
// configuration. What it counts is in the catalog: a server that is connected
// has its tools there.
func (h *Hub) Status() []Status {
	views := h.fleet.Views()
	table := h.fleet.Fresh(tableLimit)
	sizes := table.Sizes(Tools)
	listed := table.Counts()
	all := make([]Status, len(views))
	for i, v := range views {
		all[i] = h.statusOf(v, table)
		all[i].Tokens = catalog.Tokens(sizes[all[i].Name])
		all[i].Counts = listed[all[i].Name]
	}
	return all
}

// Server returns what is known about one server; ok is false if none is
// called so.
func (h *Hub) Server(name string) (st Status, ok bool) {
	s := h.fleet.Slot(name)
	if s == nil {
		return Status{}, false
	}
	return h.status(s.View()), true
}

// Logs returns the last lines that a server's processes wrote to stderr,
// oldest first, over all its generations.
func (h *Hub) Logs(server string) ([]LogLine, error) {
	s := h.fleet.Slot(server)
	if s == nil {
		return nil, fault.New(fault.NotFound, "logs", "no server is called "+server)
	}
	return s.Logs(), nil
}

// status is what is known of one server, and what clients see of it.
func (h *Hub) status(v *slot.View) Status {
	table := h.fleet.Fresh(tableLimit)
	st := h.statusOf(v, table)
	st.Tokens = catalog.Tokens(table.Sizes(Tools)[st.Name])
	st.Counts = table.Counts()[st.Name]
	return st
}

// statusOf is status without what is counted in the table.
func (h *Hub) statusOf(v *slot.View, table *Catalog) Status {
	st := Status{
		Name:       v.Server.Name,
		State:      v.Seen(),
		Generation: v.State.Gen,
		Transport:  v.Server.Transport,
		URL:        v.Server.URL,
		Since:      v.Since,
		AwaySince:  v.AwaySince,
		Next:       v.Next,
		Attempt:    v.State.Attempt,
		Cause:      v.Cause,
		Origin:     v.Server.Origin,
		Remedy:     v.Remedy(),
	}
	if v.State.Serving != 0 {
		st.Generation = v.State.Serving // a successor may start beside it
		st.PID = v.Info.PID
		st.Transport = config.Transport(v.Info.Kind.String())
		st.Version = v.Info.Era.Version
		st.Era = EraLegacy
		if v.Info.Era.Modern {
			st.Era = EraModern
		}
		st.Handshake = v.Info.Phases
	}
	st.Auth = h.fleet.Credential(st.Name)
	st.wire(v)
	st.lists(v)
	if s := h.fleet.Slot(st.Name); s != nil {
		st.counts(v, s)
	}
	h.warn(&st, v, table)
	return st
}

// counts takes over what the slot has counted.
func (st *Status) counts(v *slot.View, s *slot.Slot) {
	n := s.Counts()
	st.Out, st.Waiting, st.Calls, st.Outcomes = n.Out, n.Waiting, n.Ended(), outcomesOf(n.Results)
	st.Saved, st.Repeated, st.Parked, st.Starts, st.Outage = n.Saved, n.Repeated, n.Parked, n.Starts, n.Outage
	if !v.AwaySince.IsZero() {
		st.Outage += time.Since(v.AwaySince)
	}
	st.P50, st.P95 = n.P50, n.P95
}

// warn says what somebody should know of the server though it is no failure of
// it, and what its sessions have for themselves.
func (h *Hub) warn(st *Status, v *slot.View, table *Catalog) {
	if c := v.ListCause; c != nil {
		st.Warnings = append(st.Warnings, "its newest listing failed, and the last good one is kept: "+c.Op+": "+c.Reason())
	}
	if s := h.fleet.Slot(st.Name); s != nil {
		if what := s.Drilling(); what != "" {
			st.Warnings = append(st.Warnings, "a drill breaks it on purpose: "+what)
		}
	}
	for _, o := range h.fleet.SessionSlots(st.Name) {
		st.Sessions = append(st.Sessions, sessionStatus(o))
		if w := otherLists(v, o); w != "" && !slices.Contains(st.Warnings, w) {
			st.Warnings = append(st.Warnings, w)
		}
	}
	for _, c := range table.Conflicts() {
		if c.Server == st.Name {
			st.Warnings = append(st.Warnings, conflictText(c))
		}
	}
	if v.Away() && table.Hides(st.Name) {
		st.Warnings = append(st.Warnings, "what it offers is not listed: it has been away for "+h.Config().HideAfter.String()+" or longer")
	}
	for _, c := range h.pinChanges(st.Name) {
		if w := c.warning(); w != "" {
			st.Warnings = append(st.Warnings, w)
		}
		if c.Tool == "" && c.Withheld {
			st.Instructions = ""
		}
	}
}

// otherLists says what a server offers otherwise in the older era; "" if nothing.
func otherLists(v *slot.View, o fleet.SessionSlot) string {
	own := o.Slot.View().Catalog
	if !o.Older || own == nil || v.Catalog == nil {
		return ""
	}
	diff := catalog.Diff(v.Catalog, own)
	var parts []string
	for _, k := range diff.Kinds() {
		for _, names := range [][]string{diff.Added[k], diff.Removed[k], diff.Changed[k]} {
			for _, name := range names {
				parts = append(parts, k.String()+" "+strconv.Quote(name))
			}
		}
	}
	if parts == nil {
		return ""
	}
	const shown = 5
	text := strings.Join(parts[:min(len(parts), shown)], ", ")
	if more := len(parts) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return "to clients of older revisions it offers something else than is listed: " + text
}

// lists fills in what is known of the lists that the server offers.
func (st *Status) lists(v *slot.View) {
	c := v.Catalog
	if c == nil {
		return
	}
	for _, k := range catalog.Kinds {
		st.Offered[k] = len(c.Items[k])
		st.Warnings = append(st.Warnings, c.Warnings[k]...)
	}
	st.Instructions, st.Capabilities, st.ServerInfo.Raw = c.Instructions, c.Capabilities, c.ServerInfo
	_ = json.Unmarshal(c.ServerInfo, &st.ServerInfo) // what is not as it should be stays zero; Raw has it all
	st.CatalogAt = c.At
	if v.Checked.After(c.At) {
		st.CatalogAt = v.Checked
	}
}

func outcomesOf(n [event.CallResults]uint64) Outcomes {
	return Outcomes{
		n[event.CallAnswered], n[event.CallToolError], n[event.CallRPCError], n[event.CallNotSent],
		n[event.CallUnknown], n[event.CallRefused], n[event.CallCanceled],
	}
}

func sessionStatus(o fleet.SessionSlot) SessionStatus {
	v := o.Slot.View()
	st := SessionStatus{
		Client: o.Client, Clients: o.Clients, State: v.Seen(), Generation: v.State.Gen, Since: v.Since, AwaySince: v.AwaySince,
		Out: o.Slot.Counts().Out, Cause: v.Cause,
	}
	if v.State.Serving != 0 {
		st.PID = v.Info.PID
	}
	if o.Older {
		st.Era = EraLegacy
	}
	return st
}

// loudStderr is from how many bytes a second a server's stderr is a flood.
const loudStderr = 64 << 10

// wire fills in how the link behaves.
func (st *Status) wire(v *slot.View) {
	info := v.Link()
	st.Noise, st.LastNoise, st.Ignored, st.StderrRate = info.Noise, info.LastNoise, info.Ignored, info.StderrRate
	st.Warnings = append(st.Warnings, info.Notices...)
	if st.Noise > 0 {
		st.Warnings = append(st.Warnings, fmt.Sprintf("it wrote %d lines that are no messages of the protocol where only those belong; the last one: %s", st.Noise, st.LastNoise))
	}
	if st.StderrRate >= loudStderr {
		st.Warnings = append(st.Warnings, fmt.Sprintf("it floods its stderr: %.0f kB a second", st.StderrRate/1000))
	}
}

func conflictText(c catalog.Conflict) string {
	if c.Exposed == "" {
		return fmt.Sprintf("%s %q is shadowed by server %s: neither listed nor reachable", c.Kind, c.Name, c.Winner)
	}
	return fmt.Sprintf("%s %q is published as %q: server %s has the plain name", c.Kind, c.Name, c.Exposed, c.Winner)
}
