package upstream

import (
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/transport"
)

// A Phase is one part of how a generation came up.
type Phase struct {
	Name  string // PhaseSpawn, ...
	Began time.Time
	Took  time.Duration
	Fault *fault.Fault // why it failed, at the last try; nil if it did not
}

// The phases, in their order. Those that a generation did not go through are left
// out: a known era needs no probe, a URL starts no process.
const (
	PhaseSpawn      = "spawn"      // until the process ran
	PhaseFirstByte  = "first byte" // from then until the first answer to anything: the server's own start
	PhaseEra        = "era"        // the probe for the modern era; with a server that is silent on it, until it was given up
	PhaseInitialize = "initialize" // all attempts at it
	PhaseList       = "list"       // the first listing
)

// phases are noted by the handshake alone, and do not change after it.
type phases struct {
	all    []Phase
	opened time.Time // the link; zero once it has answered
}

// add counts a phase that began then; what happens twice counts as one.
func (p *phases) add(name string, began time.Time, f *fault.Fault) {
	took := time.Since(began)
	for i := range p.all {
		if was := &p.all[i]; was.Name == name {
			was.Took, was.Fault = was.Took+took, f
			return
		}
	}
	p.all = append(p.all, Phase{name, began, took, f})
}

// open notes that a link is there, whose opening began then.
func (p *phases) open(k transport.Kind, began time.Time) {
	if k == transport.Stdio {
		p.add(PhaseSpawn, began, nil)
	}
	p.opened = time.Now()
}

// answer notes a request of the handshake that is over.
func (p *phases) answer(name string, began time.Time, f *fault.Fault) {
	answered := f == nil || f.Outcome == fault.Answered
	if answered && !p.opened.IsZero() {
		p.add(PhaseFirstByte, p.opened, nil)
		p.opened = time.Time{}
	}
	p.add(name, began, f)
}
