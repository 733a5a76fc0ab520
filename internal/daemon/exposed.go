package daemon

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/admin"
)

// exposures are by which ways others than the user come in without having shown who
// they are, at an address.
func exposures(c *config.Config, address string) []admin.Exposure {
	var all []admin.Exposure
	if address != "" && !isLoopback(address) && !c.Access.Demanded {
		all = append(all, admin.Exposure{
			To: admin.ToNetwork, Text: "other machines can reach " + address + " and call every tool: nothing says who may come in",
			Remedy: `unless a proxy in front checks who calls, say who may come in: "auth": {"tokens": true}, then: everline token create NAME`,
		})
	}
	if c.Clients == config.ClientsAnyLocal {
		all = append(all, admin.Exposure{
			To: admin.ToMachine, Text: `every user of this machine can come in: "clients" is "any-local"`, Remedy: `"clients": "same-user", or "auth" and "clients": "tokens"`,
		})
	}
	return all
}

// exposed are those of the configuration that is applied.
func (d *daemon) exposed() []admin.Exposure { return exposures(d.hub.Config(), d.parts.address) }

// warnAgain is how often the log says what is open to everybody.
const warnAgain = 24 * time.Hour

// sayExposed has the log say what is open to everybody: now, when that has changed,
// which changed tells, and every day until ctx ends.
func sayExposed(ctx context.Context, log *slog.Logger, exposed func() []admin.Exposure, changed <-chan struct{}) {
	again := time.NewTicker(warnAgain)
	defer again.Stop()
	var said []admin.Exposure
	for anew := true; ; {
		now := exposed()
		for _, e := range now {
			if anew || !slices.Contains(said, e) {
				log.Warn(e.Text, "remedy", e.Remedy)
			}
		}
		said = now
		select {
		case <-again.C:
			anew = true
		case <-changed:
			anew = false
		case <-ctx.Done():
			return
		}
	}
}
