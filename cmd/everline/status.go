package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/daemon"
	"github.com/everline/everline/internal/show"
	"github.com/everline/everline/internal/top"
	"github.com/everline/everline/internal/typed"
)

func newStatus(a *app) *cobra.Command {
	var wait string
	var timeout time.Duration
	var check bool
	cmd := &cobra.Command{
		Use:     "status [server]",
		Aliases: []string{"ps"},
		Short:   "What every server is doing, why, and since when",
		Args:    cobra.MaximumNArgs(1),
		RunE: runE(func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			st, err := a.awaitStatus(cmd.Context(), name, event.State(wait), timeout)
			if err != nil {
				return err
			}
			asked := only(st.Servers, name)
			if err := a.printStatus(st, name); err != nil {
				return err
			}
			if code := health(asked); check && code != exitOK {
				return exit(code)
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&wait, "wait", "", "wait until the server, or every server that is not disabled or idle, is in this state")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long --wait waits at most")
	cmd.Flags().BoolVar(&check, "check", false, "exit with 5 if an enabled server is down, with 4 if one needs a login; where some are required, only those count")
	return cmd
}

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
			fmt.Fprintf(a.err, "%s is idle: its next call starts it\n", name)
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
			told("everline has not taken up the configuration yet")
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

// isUnused tells whether nothing but a call starts an idle server: one that was
// never listed is started by itself.
func isUnused(s admin.Server) bool { return s.State == event.StateIdle && s.CatalogAt != nil }

// restsWell tells whether a server that is waited for is as good as connected.
func restsWell(s admin.Server, state event.State) bool {
	return state == event.StateConnected && isUnused(s)
}

// isStuck tells whether nobody but the user will bring a server to another state.
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

// takesUp tells whether a server can be used as the files have it now, which
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
		return "everline has told of no server yet"
	}
	var late []string
	for _, s := range servers {
		if s.State != state {
			late = append(late, shownName(s.Name)+" is "+string(s.State))
		}
	}
	return strings.Join(late, ", ")
}

// waitingLine shows, on a terminal and after a second, what is waited for; ""
// takes the line away.
func (a *app) waitingLine() func(text string) {
	began, shown := time.Now(), false
	terminal := isTerminal(a.err)
	return func(text string) {
		switch took := time.Since(began); {
		case text == "" && shown:
			fmt.Fprint(a.live(), "\r\x1b[K")
		case text != "" && terminal && took > time.Second:
			line := fmt.Sprintf("%s: %s", span(took), printable(text))
			if width := terminalWidth(a.err); width > 0 {
				line = show.Cut(line, width-1)
			}
			fmt.Fprintf(a.live(), "\r%s\x1b[K", line)
			shown = true
		}
	}
}

// statusWith is the status of all, in which the named server must be; "" names
// none.
func (a *app) statusWith(ctx context.Context, name string) (admin.Status, error) {
	st, err := a.client().Status(ctx)
	if err == nil && name != "" && len(only(st.Servers, name)) == 0 {
		err = noServer(name, st.Servers)
	}
	return st, err
}

// only is the named server, or all for "".
func only(all []admin.Server, name string) []admin.Server {
	for i, s := range all {
		if s.Name == name {
			return all[i : i+1]
		}
	}
	if name != "" {
		return nil
	}
	return all
}

// about leaves out what is about other servers than the named one; "" leaves
// out nothing. The servers stay, to be counted.
func about(st admin.Status, name string) admin.Status {
	if name == "" {
		return st
	}
	left, problems := st.Leftovers, st.Problems
	st.Warnings, st.Leftovers, st.Problems = []string{}, []admin.Leftover{}, []admin.Problem{}
	for _, p := range problems {
		if p.Server == name {
			st.Problems = append(st.Problems, p)
		}
	}
	for _, s := range only(st.Servers, name) { // one at most
		st.Warnings = append(st.Warnings, s.ConfigWarnings...)
	}
	for _, l := range left {
		if l.Server == name {
			st.Leftovers = append(st.Leftovers, l)
		}
	}
	return st
}

func noServer(name string, servers []admin.Server) error {
	var names []string
	for _, s := range servers {
		names = append(names, s.Name)
	}
	f := fault.New(fault.NotFound, "find the server", "no server is called "+shownName(name))
	f.Remedy = "everline status"
	if near := typed.Nearest(name, names); near != "" {
		f.Remedy = "did you mean " + near + "?"
	}
	return f
}

func allIn(servers []admin.Server, state event.State) bool {
	for _, s := range servers {
		if s.State != state {
			return false
		}
	}
	return true
}

// health is the exit code of --check. Where some servers are required the
// others do not count, as for /readyz; where none is, all do.
func health(servers []admin.Server) int {
	code := exitOK
	some := slices.ContainsFunc(servers, func(s admin.Server) bool { return s.Required })
	for _, s := range servers {
		switch off := s.State.Off(); {
		case some && !s.Required:
		case s.State == event.StateConnected, s.State == event.StateIdle, off && !s.Required:
		case s.State == event.StateAuthRequired:
			code = worse(code, exitAuth)
		default:
			code = exitDegraded
		}
	}
	return code
}

// printStatus prints what is known of the named server, or of all for "".
func (a *app) printStatus(st admin.Status, name string) error {
	asked := only(st.Servers, name)
	switch a.output {
	case "json":
		st = about(st, name)
		st.Servers = asked
		return writeJSON(a.out, st)
	case "jsonl":
		for _, s := range asked {
			if err := writeLine(a.out, s); err != nil {
				return err
			}
		}
		return nil
	default:
		p := a.statusPrinter()
		p.server = name
		_, err := fmt.Fprint(a.out, p.page(st, asked))
		return err
	}
}

// A statusPrinter makes the table: values in, text out.
type statusPrinter struct {
	now    time.Time
	colour bool
	wide   bool
	server string // what is about other servers is left out; "": nothing is
	width  int    // of the terminal; 0: lines may have any length
	name   int    // widths
	state  int
	tools  int
	gen    int
}

func (a *app) statusPrinter() statusPrinter {
	return statusPrinter{now: time.Now(), colour: colours(a.out), wide: a.output == "wide", width: terminalWidth(a.out)}
}

// page is everline as a whole and the servers that were asked for.
func (p statusPrinter) page(st admin.Status, asked []admin.Server) string {
	var b strings.Builder
	b.WriteString(strings.Join(show.Fold(top.HeadParts(st, p.now), gap, p.width), "\n  ") + "\n")
	for _, s := range asked {
		p.name = max(p.name, show.Width(shownName(s.Name)))
		p.state = max(p.state, len(s.State))
		p.tools = max(p.tools, len(p.offers(s)))
		p.gen = max(p.gen, len(generation(s)))
	}
	for _, s := range asked {
		p.block(&b, s)
	}
	st = about(st, p.server) // the head is of everline as a whole
	p.configError(&b, st)
	for _, w := range st.Warnings {
		p.wrapped(&b, "", "warning: ", w)
	}
	for _, bad := range st.Problems {
		p.problem(&b, bad)
	}
	if text := leftovers(st.Leftovers); text != "" {
		p.wrapped(&b, "", "", text)
	}
	return b.String()
}

// configError says why the files are not applied, since when, and what to do.
func (p statusPrinter) configError(b *strings.Builder, st admin.Status) {
	if st.ConfigError == nil {
		return
	}
	label := "not reloaded"
	if at := st.ConfigErrorSince; at != nil {
		label += " for " + span(p.now.Sub(*at))
	}
	p.wrapped(b, "", label+": ", *st.ConfigError)
	if st.ConfigRemedy != nil {
		fmt.Fprintf(b, "%s%s\n", under, advice(*st.ConfigRemedy))
	}
}

// problem says what is wrong with what everline keeps, since when, and what to
// do about it.
func (p statusPrinter) problem(b *strings.Builder, bad admin.Problem) {
	text := bad.Text
	if bad.Server != "" {
		text = bad.Server + ": " + text
	}
	p.wrapped(b, "", "warning: ", text+" (for "+span(p.now.Sub(bad.Since))+")")
	if bad.Remedy != "" {
		fmt.Fprintf(b, "%s%s\n", under, advice(bad.Remedy))
	}
}

// wrapped writes a text behind a label, in as many lines of the terminal's
// width as it needs, and in one where the width is not known.
func (p statusPrinter) wrapped(b *strings.Builder, indent, label, text string) {
	lines := []string{show.Printable(text)}
	if room := p.width - show.Width(indent+label); p.width > 0 {
		lines = show.Wrap(lines[0], max(room, 20))
	}
	for i, line := range lines {
		if i > 0 {
			label = strings.Repeat(" ", show.Width(label))
		}
		fmt.Fprintf(b, "%s%s%s\n", indent, label, line)
	}
}

// leftovers tells of processes that an earlier run had left behind.
func leftovers(found []admin.Leftover) string {
	if len(found) == 0 {
		return ""
	}
	var ended, stubborn []string
	for _, l := range found {
		name := fmt.Sprintf("pid %d", l.PID)
		if l.Server != "" {
			name = shownName(l.Server) + " " + name
		}
		if l.Ended {
			ended = append(ended, name)
		} else {
			stubborn = append(stubborn, name)
		}
	}
	var parts []string
	if len(ended) > 0 {
		parts = append(parts, "ended "+strings.Join(ended, ", "))
	}
	if len(stubborn) > 0 {
		parts = append(parts, "would not end: "+strings.Join(stubborn, ", "))
	}
	return "left over from an earlier run that did not end in order: " + strings.Join(parts, "; ")
}

// gap stands between the parts of the head.
const gap = "   "

func generation(s admin.Server) string {
	if s.Generation == 0 {
		return "-"
	}
	return fmt.Sprintf("gen %d", s.Generation)
}

func (p statusPrinter) offers(s admin.Server) string {
	if s.CatalogAt == nil {
		return "-"
	}
	if all := s.All().Tools; p.wide && all != s.Tools {
		return show.Of(s.Tools, all) + " tools"
	}
	return plural(s.Tools, "tool")
}

// under is the indent of what stands below a server's line.
const under = "     "

// block writes the line of a server, and what more there is to say below it.
func (p statusPrinter) block(b *strings.Builder, s admin.Server) {
	l := looks[s.State]
	name, state := " "+pad(shownName(s.Name), p.name)+"  ", pad(string(s.State), p.state)
	rest := strings.Join([]string{"", pad(generation(s), p.gen), pad(p.offers(s), p.tools), pad(s.Transport, 5)}, "  ")
	line := " " + paint(l.symbol, l.colour, p.colour) + name + paint(state, l.colour, p.colour) + rest
	used := show.Width(" " + l.symbol + name + state + rest)
	for _, cell := range p.facts(s) {
		if w := show.Width(cell) + 2; p.width > 0 && used+w > p.width {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line, used = under+cell, len(under)-2+w
		} else {
			line, used = line+"  "+cell, used+w
		}
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
	p.below(b, s)
}

// causeCell is the longest cause in bytes that stands in the server's own line.
const causeCell = 60

// facts are the cells that depend on how the server does.
func (p statusPrinter) facts(s admin.Server) []string {
	var cells []string
	up := s.State == event.StateConnected
	if s.PID != nil {
		cells = append(cells, fmt.Sprintf("pid %d", *s.PID))
	}
	if s.Memory != nil {
		cells = append(cells, show.Bytes(*s.Memory))
	}
	switch {
	case s.AwaySince != nil: // over all attempts; the state's own time begins anew with each
		cells = append(cells, "away "+span(p.now.Sub(*s.AwaySince)))
	case s.Since != nil:
		cells = append(cells, span(p.now.Sub(*s.Since)))
	}
	if !up && s.CatalogAt != nil {
		cells = append(cells, "last good "+clock(*s.CatalogAt, p.now))
	}
	if s.Cause != nil && !up && len(*s.Cause) <= causeCell {
		cells = append(cells, printable(*s.Cause))
	}
	if s.P95 != nil && (up || p.wide) {
		cells = append(cells, "p95 "+show.Milliseconds(*s.P95))
	}
	if s.NextAttempt != nil {
		next := "next try in " + span(s.NextAttempt.Sub(p.now))
		if s.Attempt > 0 {
			next += fmt.Sprintf(" (attempt %d)", s.Attempt+1)
		}
		cells = append(cells, next)
	}
	if s.Out > 0 || s.Waiting > 0 || p.wide {
		cells = append(cells, fmt.Sprintf("%d calls out, %d waiting", s.Out, s.Waiting))
	}
	return cells
}

// stderrShown is how many of the last stderr lines the table shows.
const stderrShown = 3

func (p statusPrinter) below(b *strings.Builder, s admin.Server) {
	if s.State != event.StateConnected {
		if s.Cause != nil && len(*s.Cause) > causeCell {
			p.wrapped(b, under, "cause: ", *s.Cause)
		}
		for _, line := range s.Stderr[max(0, len(s.Stderr)-stderrShown):] {
			p.wrapped(b, under, "stderr: ", line)
		}
		if s.Remedy != nil {
			fmt.Fprintf(b, "%s%s\n", under, advice(*s.Remedy)) // in one piece, to be copied
		}
	}
	for _, line := range p.sessionLines(s.Sessions) {
		p.wrapped(b, under, "", line)
	}
	for _, w := range s.Warnings {
		p.wrapped(b, under, "warning: ", w)
	}
	if p.wide {
		for _, line := range show.Fold(p.details(s), gap, max(p.width-len(under), 0)) {
			b.WriteString(under + line + "\n")
		}
	}
}

// details are what only the wide table has.
func (p statusPrinter) details(s admin.Server) []string {
	parts := []string{"from " + s.Origin}
	if s.AwaySince != nil && s.Since != nil {
		parts = append(parts, string(s.State)+" for "+span(p.now.Sub(*s.Since)))
	}
	if s.URL != nil {
		parts = append(parts, *s.URL)
	}
	if s.Era != nil && s.ProtocolVersion != nil {
		parts = append(parts, *s.Era+" "+*s.ProtocolVersion)
	}
	parts = append(parts, fmt.Sprintf("%s prompts, %s resources, %s templates", show.Of(s.Prompts, s.All().Prompts), show.Of(s.Resources, s.All().Resources), show.Of(s.Templates, s.All().Templates)),
		fmt.Sprintf("tools cost about %d tokens (estimate)", s.ToolTokens))
	if s.Ignored > 0 {
		parts = append(parts, plural(int(s.Ignored), "message")+" ignored")
	}
	if s.P50 != nil && s.P95 != nil {
		parts = append(parts, fmt.Sprintf("%d calls, p50 %s, p95 %s", s.Calls, show.Milliseconds(*s.P50), show.Milliseconds(*s.P95)))
	}
	return parts
}

// lines is the block of one server alone.
func (p statusPrinter) lines(s admin.Server) string {
	var b strings.Builder
	p.block(&b, s)
	return b.String()
}
