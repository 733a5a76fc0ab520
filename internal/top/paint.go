package top

import (
	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/color"

	"github.com/everline/everline/internal/show"
)

// A painter puts frames on a screen. It uses the terminal's own foreground,
// background and first eight colours, so that dark and light themes both fit,
// and no meaning is in a colour alone.
type painter struct {
	screen  tcell.Screen
	colours bool
}

// colours are those of the tones that have one; the others have the default.
var colours = map[tone]color.Color{good: color.XTerm2, busy: color.XTerm6, warn: color.XTerm3, bad: color.XTerm1}

func (p painter) style(t tone) tcell.Style {
	s := tcell.StyleDefault
	switch t {
	case strong:
		return s.Bold(true)
	case dim:
		return s.Dim(true)
	case title:
		return s.Bold(true).Underline(true)
	case chosen:
		return s.Reverse(true)
	default:
		if !p.colours {
			return s.Bold(t == bad || t == warn)
		}
		return s.Foreground(colours[t])
	}
}

// paint shows a frame; only what has changed is sent to the terminal.
func (p painter) paint(frame []line, width int) {
	p.screen.Clear()
	for y, l := range frame {
		x := 0
		for _, s := range l {
			text := show.Cut(show.Printable(s.text), width-x)
			p.screen.PutStrStyled(x, y, text, p.style(s.tone))
			x += show.Width(text)
		}
	}
	p.screen.Show()
}
