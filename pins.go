package everline

import (
	"context"
	"fmt"
	"slices"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/catalog"
	"github.com/everline/everline/internal/fleet"
)

// A PinChange is one definition that is not as it was approved. See
// config.Config.Pins.
type PinChange struct {
	Server   string
	Tool     string // the server's own name; "" for its instructions
	What     string // "changed", "new" or "removed"
	Was, Now []byte // definitions in canonical form (RFC 8785), or instructions; nil where there are none
	Withheld bool   // it is not published until it is approved
}

// PinChanges returns what is not as it was approved, in the order of the
// configuration; nothing if pins are off.
func (h *Hub) PinChanges() []PinChange {
	var all []PinChange
	for _, name := range h.fleet.Names() {
		all = append(all, h.pinChanges(name)...)
	}
	return all
}

func (h *Hub) pinChanges(server string) []PinChange {
	changes, withheld := h.fleet.PinChanges(server)
	all := make([]PinChange, len(changes))
	for i, c := range changes {
		all[i] = PinChange{
			Server: server, Tool: c.Tool, What: c.What, Was: c.Was, Now: c.Now,
			Withheld: withheld && c.What != catalog.PinRemoved,
		}
	}
	return all
}

// CheckPins tells whether the lock file that cfg names can be read, as Open needs
// it; nil if pins are off.
func CheckPins(cfg *config.Config) error {
	_, err := fleet.ReadPins(cfg)
	return err
}

func (h *Hub) withholds(server string) bool {
	return slices.ContainsFunc(h.pinChanges(server), func(c PinChange) bool { return c.Withheld })
}

// Approve pins what is offered now: one tool of a server, all of a server
// where tool is "", everything where server is "", too. It returns how many
// definitions are approved that were not before, once the lock file is written
// and the catalog shows them.
func (h *Hub) Approve(ctx context.Context, server, tool string) (int, error) {
	return h.fleet.Approve(ctx, server, tool)
}

// warning is what status says of a change; "" if it says nothing.
func (c PinChange) warning() string {
	what := "the instructions"
	if c.Tool != "" {
		what = fmt.Sprintf("tool %q", catalog.Visible(c.Tool))
	}
	var text string
	switch c.What {
	case catalog.PinChanged:
		text = what + " changed since approved"
	case catalog.PinNew:
		text = what + " was never approved"
	default:
		return ""
	}
	if c.Withheld {
		text += "; withheld"
	}
	return text + ": everline tools diff " + c.Server
}
