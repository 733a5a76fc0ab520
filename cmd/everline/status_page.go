package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/everline/everline/event"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/show"
	"github.com/everline/everline/internal/top"
)

// printStatus prints what is known of the named server, or of all for "".
func (a *app) printStatus(st admin.Status, name string) error {
	asked := only(st.Servers, name)
	switch a.output {
	case "json":
		st = about(st, name)
		st.Servers = asked
		return writeJSON(a.stdout, st)
	case "jsonl":
		for _, s := range asked {
			if err := writeLine(a.stdout, s); err != nil {
				return err
			}
		}
		return nil
	default:
		p := a.statusPrinter()
		p.server = name
		_, err := fmt.Fprint(a.stdout, p.page(st, asked))
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
	return statusPrinter{now: time.Now(), colour: colours(a.stdout), wide: a.output == "wide", width: terminalWidth(a.stdout)}
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
	for _, e := range st.Exposed {
		p.wrapped(&b, "", "open to everybody: ", e.Text)
		fmt.Fprintf(&b, "%s%s\n", under, advice(e.Remedy))
	}
	p.configError(&b, st)
	for _, w := range st.Warnings {
		p.wrapped(&b, "", "warning: ", w)
	}
	for _, bad := range st.Problems {
		p.problem(&b, bad)
	}
	if text := orphans(st.Orphans); text != "" {
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
	if since := st.ConfigErrorSince; since != nil {
		label += " for " + span(p.now.Sub(*since))
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

// orphans names the processes that an earlier run left behind.
func orphans(found []admin.Orphan) string {
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
	return "left behind by an earlier run that did not end in order: " + strings.Join(parts, "; ")
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
		return show.OutOf(s.Tools, all) + " tools"
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

// facts are the cells that depend on the state of the server.
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
	case s.AwaySince != nil: // over all attempts; the time of the state starts again with each
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
	parts = append(parts, fmt.Sprintf("%s prompts, %s resources, %s templates", show.OutOf(s.Prompts, s.All().Prompts), show.OutOf(s.Resources, s.All().Resources), show.OutOf(s.Templates, s.All().Templates)),
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

// sessionsShown is how many connections of single clients the table lists.
const sessionsShown = 3

// sessionLines are the connections that single clients have to a server: how many
// there are, and those that are not connected; all of them in the wide table.
func (p statusPrinter) sessionLines(all []admin.Session) []string {
	own, shared := 0, 0
	for _, s := range all {
		if s.Client == 0 {
			shared += s.Clients
		} else {
			own++
		}
	}
	var heads []string
	switch {
	case own == 1:
		heads = append(heads, "1 client has a connection of its own")
	case own > 1:
		heads = append(heads, fmt.Sprintf("%d clients have connections of their own", own))
	}
	switch {
	case shared == 1:
		heads = append(heads, "1 client of an older revision is served in its own era")
	case shared > 1:
		heads = append(heads, fmt.Sprintf("%d clients of older revisions are served in their own era", shared))
	}
	if heads == nil {
		return nil
	}
	return p.sessions([]string{strings.Join(heads, ", ")}, all)
}

func (p statusPrinter) sessions(lines []string, all []admin.Session) []string {
	more := 0
	for _, s := range all {
		switch {
		case !p.wide && s.State == event.StateConnected:
		case !p.wide && len(lines) > sessionsShown:
			more++
		default:
			lines = append(lines, p.session(s))
		}
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more that are not connected", more))
	}
	return lines
}

func (p statusPrinter) session(s admin.Session) string {
	who := fmt.Sprintf("client %d", s.Client)
	if s.Client == 0 {
		who = plural(s.Clients, "client")
	}
	cells := []string{who, string(s.State), fmt.Sprintf("gen %d", s.Generation)}
	if s.Era != nil {
		cells = append(cells, *s.Era)
	}
	if s.PID != nil {
		cells = append(cells, fmt.Sprintf("pid %d", *s.PID))
	}
	switch {
	case s.AwaySince != nil:
		cells = append(cells, "away "+span(p.now.Sub(*s.AwaySince)))
	case s.Since != nil:
		cells = append(cells, span(p.now.Sub(*s.Since)))
	}
	if s.Out > 0 {
		cells = append(cells, fmt.Sprintf("%d calls out", s.Out))
	}
	if s.Cause != nil && s.State != event.StateConnected {
		cells = append(cells, *s.Cause)
	}
	return strings.Join(cells, "  ")
}
