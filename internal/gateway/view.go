package gateway

import (
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/access"
	"github.com/everline/everline/internal/door"
	"github.com/everline/everline/internal/mcp"
)

// A View is the part of a hub that one address serves: a Backend that follows
// the configuration that is applied.
type View interface {
	Backend
	// KeepResults is how long a server wants the outcomes of its tool calls to be
	// kept for clients that lost their connection; 0: not at all.
	KeepResults(server string) time.Duration
}

// ViewOf returns the view of a group of a hub, whatever policies say; that of all
// servers for "". The group need not exist yet.
func ViewOf(hub *everline.Hub, group string) View { return door.View(hub, group, nil).(View) }

// ForHub makes a Gateway of a hub with the addresses of its groups, in which each
// identity has what policies grant it, and keeps results as its servers want it.
func ForHub(hub *everline.Hub, opts Options) *Gateway {
	opts.Instance, opts.Keep = mcp.Instance(), ViewOf(hub, "").KeepResults
	opts.Part = func(group string, who *access.Identity) Backend { return door.View(hub, group, who).(View) }
	return New(opts.Part("", access.Local()), opts)
}
