package fleet

import (
	"slices"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/slot"
)

// A roster is the immutable set of members; Apply replaces it.
type roster struct {
	cfg    *config.Config
	pins   *pinning
	order  []*member
	byName map[string]*member
	place  map[string]int // in order, by name
}

func newRoster(cfg *config.Config, pins *pinning) *roster {
	return &roster{cfg: cfg, pins: pins, byName: map[string]*member{}, place: map[string]int{}}
}

// pending tells whether a server may still get its first catalog by itself.
func (r *roster) pending() bool {
	return slices.ContainsFunc(r.order, func(m *member) bool { return m.slot.View().Pending() })
}

func (r *roster) add(m *member) {
	m.meter.CountTools(r.cfg.MetricsPerTool)
	r.place[m.name] = len(r.order)
	r.order = append(r.order, m)
	r.byName[m.name] = m
}

// names returns all members of a roster, in its order.
func (r *roster) names() []string {
	all := make([]string, len(r.order))
	for i, m := range r.order {
		all[i] = m.name
	}
	return all
}

func (r *roster) pinsOn() bool { return r.cfg.Pins != config.PinsOff && r.cfg.Pins != "" }

// slot is the shared slot of a server; nil if none is configured.
func (r *roster) slot(server string) *slot.Slot {
	if m := r.byName[server]; m != nil {
		return m.slot
	}
	return nil
}
