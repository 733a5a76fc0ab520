package top

import (
	"unicode/utf8"

	"github.com/everline/everline/internal/admin"
)

// operations are the keys that act on the selected server.
var operations = map[string]string{"r": "restart", "c": "reconnect", "d": "disable", "e": "enable"}

// press is what a key does, which depends on what is asked for just then.
func (m *model) press(key string) []any {
	switch {
	case key == "ctrl-c":
		return []any{quit{}}
	case key == "ctrl-l":
		return []any{redraw{}}
	case m.asking != nil:
		return m.answer(key)
	case m.typing:
		m.typeFilter(key)
		return nil
	case key == "q":
		return []any{quit{}}
	case key == "?":
		m.turn(helpPage)
		return nil
	}
	if op := operations[key]; op != "" && m.page != helpPage {
		if _, ok := m.server(); ok {
			m.asking = &operate{m.selected, op}
		}
		return nil
	}
	if m.page == listPage {
		return m.pressInList(key)
	}
	m.pressInPage(key)
	return nil
}

// answer is yes to what was asked, or anything else.
func (m *model) answer(key string) []any {
	wanted := *m.asking
	m.asking = nil
	if key != "y" && key != "Y" {
		return nil
	}
	m.notice, m.failed, m.noticed = wanted.op+" "+wanted.server+" ...", false, m.now
	return []any{wanted}
}

// maxFilter bounds what can be typed, in bytes.
const maxFilter = 64

func (m *model) typeFilter(key string) {
	switch {
	case key == "enter":
		m.typing = false
	case key == "esc":
		m.typing, m.filter = false, ""
	case key == "backspace":
		_, size := utf8.DecodeLastRuneInString(m.filter)
		m.filter = m.filter[:len(m.filter)-size]
	case utf8.RuneCountInString(key) == 1 && len(m.filter) < maxFilter:
		m.filter += key
	}
	m.reselect()
}

func (m *model) pressInList(key string) []any {
	switch key {
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup":
		m.move(-pageStep)
	case "pgdn":
		m.move(pageStep)
	case "home", "g":
		m.move(-len(m.status.Servers))
	case "end", "G":
		m.move(len(m.status.Servers))
	case "/":
		m.typing = true
	case "s":
		m.sorting = (m.sorting + 1) % len(sortings)
	case "esc":
		m.filter = ""
		m.reselect()
	case "enter":
		if _, ok := m.server(); ok {
			m.turn(serverPage)
			return m.refresh()
		}
	}
	return nil
}

// pageStep is how far a page key goes.
const pageStep = 10

func (m *model) pressInPage(key string) {
	switch key {
	case "up", "k":
		m.scroll--
	case "down", "j":
		m.scroll++
	case "pgup":
		m.scroll -= pageStep
	case "pgdn":
		m.scroll += pageStep
	case "home", "g":
		m.scroll = 0
	case "end", "G":
		m.scroll = maxScroll
	case "esc", "enter", "left", "h":
		m.turn(listPage)
		m.reselect()
	}
	m.scroll = max(m.scroll, 0)
}

// maxScroll is more lines than any page has; what is too far is corrected when
// the page is drawn.
const maxScroll = 1 << 20

func (m *model) turn(p page) {
	m.page, m.scroll, m.logs, m.logsOf = p, 0, nil, ""
}

// move selects the server so many rows further on.
func (m *model) move(steps int) {
	rows := m.rows()
	if len(rows) == 0 {
		return
	}
	selected := indexOf(rows, m.selected)
	m.selected = rows[min(max(selected+steps, 0), len(rows)-1)].Name
}

func indexOf(rows []admin.Server, name string) int {
	for i, s := range rows {
		if s.Name == name {
			return i
		}
	}
	return 0
}
