package gateway

import (
	"bufio"
	"errors"
	"io"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
	"github.com/everline/everline/internal/pipe"
)

// ourselves refuses the handshake of the everline that this is the endpoint of,
// by whatever way it came here; nil for everybody else's.
func (g *Gateway) ourselves(m *message.Message) *message.Answer {
	if !mcp.FromInstance(m.Params, g.opts.Instance) {
		return nil
	}
	return m.LoopRefusal()
}

// ServeLoop stands in for a gateway that would start itself again without end:
// it refuses the requests on in, until in ends or out cannot be written to.
func ServeLoop(in io.Reader, out io.Writer) error {
	r, limit := bufio.NewReaderSize(in, 64<<10), Options{}.filled().MaxBody
	for {
		line, err := pipe.ReadLine(r, limit)
		if m, bad := message.ParseLegacy(line); bad == nil && m.IsRequest() {
			if _, err := out.Write(append(m.LoopRefusal().Frame(), '\n')); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, pipe.ErrLongLine):
			return err
		}
	}
}
