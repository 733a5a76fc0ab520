package upstream

import "github.com/everline/everline/internal/transport"

// Info describes a live upstream, for status.
type Info struct {
	transport.Info
	Era        Era
	ServerInfo []byte // raw serverInfo; nil if the server did not say
	// Phases are how the handshake went; whoever lists adds PhaseList. It must
	// not be written to.
	Phases []Phase
}

// Mortal tells whether what the server remembers ends with this generation: its
// process does.
func (i *Info) Mortal() bool { return i.Kind != transport.HTTP && i.Kind != transport.SSE }

// Info describes the upstream as it is now.
func (u *Upstream) Info() Info {
	return Info{Info: u.describe(u.link.conn), Era: u.era, ServerInfo: u.hello.serverInfo, Phases: u.phases}
}
