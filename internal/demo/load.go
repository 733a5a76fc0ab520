package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// pace is the time between two calls of one client: with two clients for each
// of two servers, 200 calls a second.
const pace = 20 * time.Millisecond

var serial atomic.Int64 // makes every call's id unique

// callLoop calls the tools of one server in turn, as an agent would: the next
// call at its time, whether or not the last one has its answer.
func (d *Demo) callLoop(ctx context.Context, server string) error {
	c, err := dial(ctx, d.url)
	if err != nil {
		return err
	}
	tick := time.NewTicker(pace)
	defer tick.Stop()
	inFlight := make(chan struct{}, 512)
	defer func() {
		for range cap(inFlight) {
			inFlight <- struct{}{} // every call has ended
		}
	}()
	for n := 0; ; n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		tool := [...]string{"look", "pay", "set", "pay"}[n%4]
		inFlight <- struct{}{}
		go func() { // ends with its answer; waited for above
			defer func() { <-inFlight }()
			d.call(ctx, c, server, tool, fmt.Sprintf("%s-%d", server, serial.Add(1)))
		}()
	}
}

// call makes one call and tallies how it ended. The demo's end does not cut
// it: it has its own deadline.
func (d *Demo) call(ctx context.Context, c *client, server, tool, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	result, err := c.call(ctx, mcp.ToolsCall, toolParams(server+"__"+tool, id))
	d.tally.called(tool, id, outcomeOf(result, err))
}

// outcomeOf reads the outcome that the client got.
func outcomeOf(result []byte, err error) outcome {
	if err != nil {
		return failed
	}
	isError, _ := wire.Bool(wire.Get(result, "isError"))
	if !isError {
		return done
	}
	if told, _ := wire.Text(wire.Get(result, "_meta", mcp.MetaOutcome, "outcome")); told == "unknown" {
		return unknown
	}
	return failed
}

// listLoop lists ten times a second and checks that no list is short.
func (d *Demo) listLoop(ctx context.Context) error {
	c, err := dial(ctx, d.url)
	if err != nil {
		return err
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		lctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		result, err := c.call(lctx, "tools/list", []byte(`{}`))
		cancel()
		n := 0
		if err == nil {
			for range wire.Elements(wire.Get(result, "tools")) {
				n++
			}
		}
		d.tally.listed(n == 2*toolCount)
	}
}

// timeStart measures what the child needs from its start to its first answer,
// without everline: nobody can recover faster.
func (d *Demo) timeStart(ctx context.Context) (time.Duration, error) {
	argv := append(d.opts.Command[:len(d.opts.Command):len(d.opts.Command)], "probe", d.ledger)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	_, werr := in.Write(append(wire.AppendRequest(nil, 1, mcp.Ping, nil), '\n'))
	_, rerr := bufio.NewReader(out).ReadBytes('\n')
	took := time.Since(begin)
	in.Close()
	_, _ = io.Copy(io.Discard, out) // until the child has ended
	if err := cmd.Wait(); err != nil && ctx.Err() == nil {
		return 0, fmt.Errorf("the built-in server: %w", err)
	}
	if werr != nil || rerr != nil {
		return 0, fmt.Errorf("the built-in server did not answer: %w", errors.Join(werr, rerr))
	}
	return took, nil
}

func quoteAll(args []string) string {
	b, err := json.Marshal(args)
	if err != nil {
		panic("bug: strings do not encode: " + err.Error())
	}
	return string(b)
}
