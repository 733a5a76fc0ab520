package drive

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/everline/everline/internal/wire"
)

// A Load is the same request, again and again, by all sessions at once. Each
// waits for its answer before it asks again, and for its turn where there is a pace.
type Load struct {
	Sessions []Session
	Method   string
	Params   []byte
	Check    func(result []byte) error // of each answer
	For      time.Duration
	Every    time.Duration // from one call of a session to its next; 0 is at once
	Timeout  time.Duration // of one call; 30 s by default
}

// A Result is what became of a load.
type Result struct {
	Took   time.Duration
	Times  []time.Duration // of the good answers, sorted
	Errors int
	First  error // the first one; nil if there was none
}

// PerSecond is the number of good answers a second.
func (r Result) PerSecond() float64 { return float64(len(r.Times)) / r.Took.Seconds() }

// Run puts the load on until its time is over or ctx ends, and waits for the
// last answers.
func (l Load) Run(ctx context.Context) Result {
	if l.Timeout <= 0 {
		l.Timeout = 30 * time.Second
	}
	var mu sync.Mutex // guards all
	var all Result
	var wg sync.WaitGroup
	begin := time.Now()
	for _, s := range l.Sessions {
		wg.Go(func() {
			one := l.one(ctx, s, begin.Add(l.For))
			mu.Lock()
			defer mu.Unlock()
			all.Times = append(all.Times, one.Times...)
			all.Errors += one.Errors
			if all.First == nil {
				all.First = one.First
			}
		})
	}
	wg.Wait()
	all.Took = time.Since(begin)
	slices.Sort(all.Times)
	return all
}

func (l Load) one(ctx context.Context, s Session, end time.Time) (r Result) {
	for at := time.Now(); at.Before(end) && ctx.Err() == nil; {
		err := l.call(ctx, s)
		now := time.Now()
		switch {
		case err == nil:
			r.Times = append(r.Times, now.Sub(at))
		case ctx.Err() == nil:
			r.Errors++
			if r.First == nil {
				r.First = err
			}
			pause(ctx, 5*time.Millisecond) // what fails at once is not to fill the machine
			now = time.Now()
		}
		if at = at.Add(l.Every); l.Every == 0 {
			at = now
		}
		if left := at.Sub(now); left > 0 {
			pause(ctx, left)
		}
	}
	return r
}

func (l Load) call(ctx context.Context, s Session) error {
	ctx, cancel := context.WithTimeout(ctx, l.Timeout)
	defer cancel()
	result, err := s.Call(ctx, l.Method, l.Params)
	if err != nil {
		return err
	}
	return l.Check(result)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// ToolCall makes the params of tools/call; arguments are raw JSON.
func ToolCall(name, arguments string) []byte {
	b := wire.AppendString([]byte(`{"name":`), name)
	return append(append(append(b, `,"arguments":`...), arguments...), '}')
}

// Holds returns a check that an answer is no failure and holds a text, of at
// least so many bytes in all.
func Holds(text string, bytesAtLeast int) func([]byte) error {
	want := []byte(text)
	return func(result []byte) error {
		switch head := result[:min(len(result), 4096)]; {
		case bytes.Contains(head, []byte(`"isError":true`)):
			return fmt.Errorf("the tool failed: %.300s", result)
		case len(result) < bytesAtLeast || !bytes.Contains(head, want):
			return fmt.Errorf("the answer of %d bytes is not what was asked for: %.100s", len(result), result)
		}
		return nil
	}
}

// Lists returns a check that an answer has at least so many tools.
func Lists(tools int) func([]byte) error {
	return func(result []byte) error {
		// No string of the benchmark's tools holds this.
		if n := bytes.Count(result, []byte(`"inputSchema"`)); n < tools {
			return fmt.Errorf("%d tools, not %d", n, tools)
		}
		return nil
	}
}

// Tools lists all tools, whatever the number of pages, and returns their names.
func Tools(ctx context.Context, s Session) ([]string, error) {
	var names []string
	params := []byte(`{}`)
	for range 1000 {
		result, err := s.Call(ctx, "tools/list", params)
		if err != nil {
			return nil, err
		}
		for tool := range wire.Elements(wire.Get(result, "tools")) {
			name, _ := wire.Text(wire.Get(tool, "name"))
			names = append(names, name)
		}
		cursor := wire.Get(result, "nextCursor")
		if text, ok := wire.Text(cursor); !ok || text == "" {
			return names, nil
		}
		params = append(append([]byte(`{"cursor":`), cursor...), '}')
	}
	return names, fmt.Errorf("more than 1,000 pages")
}

// Find returns the published name of a server's tool: gateways put what they
// like in front. server may be "".
func Find(names []string, server, tool string) (string, error) {
	for _, n := range names {
		rest, ok := strings.CutSuffix(n, tool)
		if ok && !strings.HasSuffix(rest, "work_") && (server == "" || rest == "" || strings.HasPrefix(rest, server)) {
			return n, nil
		}
	}
	return "", fmt.Errorf("no tool %s among %d: %.200v", tool, len(names), names)
}
