package slot

import (
	"fmt"
	"strconv"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/lifecycle"
)

// noiseLook is how often the loop looks whether a server that is starting
// writes what is no message. Those that are up by then are not blamed for a
// greeting.
const noiseLook = time.Second

// lookForNoise shows, while a start goes on that may take a minute to fail, what
// the server writes instead of answers.
func (lp *loop) lookForNoise() {
	g := lp.gens[lp.state.Trying]
	if g == nil {
		return
	}
	if link := g.link.Load(); link != nil {
		if info := (*link)(); info.LastNoise != "" {
			g.noise = noisy(info.LastNoise).At(g.server, g.gen)
			lp.blame(g.explain(g.noise))
			return
		}
	}
	lp.noise.set(noiseLook)
}

func noisy(line string) *fault.Fault {
	return &fault.Fault{
		Kind: fault.Protocol, Op: "start", Err: fmt.Errorf("it writes to its output what is no message of the protocol: %s", strconv.Quote(line)),
		Remedy: "make the server log to stderr, and write nothing but messages of MCP to stdout; check that the command starts it in stdio mode",
	}
}

// withNoise completes a start that was not up in time with what the server has
// written instead.
func withNoise(f *fault.Fault, g *generation) *fault.Fault {
	if g.noise == nil || f.Kind != fault.Deadline {
		return f
	}
	c := *f
	c.Err, c.Remedy = fmt.Errorf("%w; %w", f.Cause(), g.noise.Cause()), g.noise.Remedy
	return &c
}

// forgiveNoise: g has come up, and what it wrote meanwhile is no cause of
// anything.
func (lp *loop) forgiveNoise(g *generation) {
	if c := lp.cause; g.noise != nil && c != nil && c.Gen == g.gen && lp.state.Phase() == lifecycle.Ready {
		lp.cause = nil
	}
}
