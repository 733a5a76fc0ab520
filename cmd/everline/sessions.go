package main

import (
	"fmt"
	"strings"

	"github.com/everline/everline/event"
	"github.com/everline/everline/internal/admin"
)

// sessionsShown is how many lives of single clients the table lists.
const sessionsShown = 3

// sessionLines tell of the lives that single clients have of a server: how many
// there are, and those that are not well; all of them in the wide table.
func (p statusPrinter) sessionLines(all []admin.Session) []string {
	switch len(all) {
	case 0:
		return nil
	case 1:
		return p.lives([]string{"1 client has a life of its own"}, all)
	}
	return p.lives([]string{fmt.Sprintf("%d clients have lives of their own", len(all))}, all)
}

func (p statusPrinter) lives(lines []string, all []admin.Session) []string {
	more := 0
	for _, s := range all {
		switch {
		case !p.wide && s.State == event.StateConnected:
		case !p.wide && len(lines) > sessionsShown:
			more++
		default:
			lines = append(lines, p.life(s))
		}
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more that are not connected", more))
	}
	return lines
}

func (p statusPrinter) life(s admin.Session) string {
	cells := []string{fmt.Sprintf("client %d", s.Client), string(s.State), fmt.Sprintf("gen %d", s.Generation)}
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
