package mcptest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/everline/everline/internal/mcp"
)

// errExit is what Serve returns after a Reply with Exit.
var errExit = errors.New("mcptest: told to exit")

// link is one served pair of streams, or their like in memory.
type link struct {
	s      *Server
	ctx    context.Context // ends with the link
	cancel context.CancelCauseFunc
	emit   func(raw string) // hands a message to the client; blocks no longer than ctx
	wg     sync.WaitGroup   // requests under way, and the link's own goroutines

	mu      sync.Mutex // guards what follows
	closed  bool       // nothing is added to wg any more
	running map[string]context.CancelFunc
}

func (s *Server) newLink(ctx context.Context) *link {
	ctx, cancel := context.WithCancelCause(ctx)
	return &link{s: s, ctx: ctx, cancel: cancel, running: map[string]context.CancelFunc{}}
}

// Serve speaks MCP as lines on a pair of streams, as a stdio server does,
// until in ends, the server is closed, or a reply cuts the link. It closes out,
// and in, where they can be closed, and waits for everything it started.
func (s *Server) Serve(input io.Reader, out io.Writer) error {
	l := s.newLink(context.Background())
	lines := make(chan string, 1024)
	l.emit = func(raw string) {
		select {
		case lines <- raw:
		case <-l.ctx.Done():
		}
	}
	if s.cfg.StartDelay > 0 {
		s.pause(l.ctx, s.cfg.StartDelay)
	}
	standing := newListener("", "")
	s.listen(standing)
	defer s.unlisten(standing)
	l.wg.Go(func() { l.write(out, lines) })
	go l.read(input) // ends with in, which is closed below; a stdin that cannot be closed ends with the process
	l.run(standing)
	l.refuse()
	if c, ok := input.(io.Closer); ok {
		_ = c.Close()
	}
	l.wg.Wait()
	if c, ok := out.(io.Closer); ok {
		_ = c.Close()
	}
	if err := context.Cause(l.ctx); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// ServeFrames is Serve with a message at a time. It has the shape of
// transport.ServeFunc, and works in testing/synctest bubbles.
func (s *Server) ServeFrames(ctx context.Context, input <-chan []byte, out func(frame []byte)) {
	l := s.newLink(ctx)
	l.emit = func(raw string) { out([]byte(raw)) }
	if s.cfg.StartDelay > 0 {
		s.pause(l.ctx, s.cfg.StartDelay)
	}
	standing := newListener("", "")
	s.listen(standing)
	defer s.unlisten(standing)
	l.wg.Go(func() {
		for {
			select {
			case frame, ok := <-input:
				if !ok {
					l.cancel(io.EOF)
					return
				}
				l.message(frame)
			case <-l.ctx.Done():
				return
			}
		}
	})
	l.run(standing)
	l.refuse()
	l.wg.Wait()
}

func (l *link) refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

// run forwards what the server has to say by itself, until the link ends.
func (l *link) run(standing *listener) {
	for {
		select {
		case raw := <-standing.out:
			l.send(raw)
		case <-l.s.done:
			l.cancel(io.EOF)
			return
		case <-l.ctx.Done():
			return
		}
	}
}

func (l *link) read(input io.Reader) {
	r := bufio.NewReader(input)
	for {
		line, err := r.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			l.message(line)
		}
		if err != nil {
			l.cancel(io.EOF)
			return
		}
	}
}

func (l *link) write(out io.Writer, lines <-chan string) {
	for {
		select {
		case line := <-lines:
			if _, err := io.WriteString(out, line+"\n"); err != nil {
				l.cancel(err)
				return
			}
		case <-l.ctx.Done():
			return
		}
	}
}

func (l *link) send(raw string) {
	if !l.s.cfg.Deaf {
		l.emit(raw)
	}
}

func (l *link) message(line []byte) {
	var e envelope
	if json.Unmarshal(line, &e) != nil || l.ctx.Err() != nil {
		return
	}
	switch {
	case e.Method == "":
		l.s.noteAnswer(line)
	case len(e.ID) == 0:
		if id := l.s.noteNotification(&e); id != "" {
			l.mu.Lock()
			cancel := l.running[id]
			l.mu.Unlock()
			if cancel != nil {
				cancel()
			}
		}
	default:
		l.request(&e)
	}
}

// request answers one request on a goroutine of its own.
func (l *link) request(e *envelope) {
	ctx, cancel := context.WithCancel(l.ctx)
	id := string(e.ID)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		cancel()
		return
	}
	l.running[id] = cancel
	r := &Request{ID: e.ID, Method: e.Method, Params: e.Params, send: l.send}
	l.wg.Go(func() {
		defer func() {
			l.mu.Lock()
			delete(l.running, id)
			l.mu.Unlock()
			cancel()
		}()
		if l.s.cfg.ExitOnProbe && r.Method == mcp.ServerDiscover {
			l.s.handle(ctx, r)
			l.cancel(errExit)
			return
		}
		if _, modern := modernCall(r.Params); modern && r.Method == mcp.SubscriptionsListen && l.s.cfg.Era != Legacy {
			if l.listen(ctx, r) {
				return
			}
		}
		l.s.noise()
		l.reply(ctx, r, l.s.handle(ctx, r))
	})
}

func (l *link) reply(ctx context.Context, r *Request, rep Reply) {
	for _, raw := range rep.Before {
		l.send(raw)
	}
	switch {
	case rep.Exit:
		l.cancel(errExit)
	case rep.Cut:
		l.cancel(io.EOF)
	case rep.Hang:
		<-ctx.Done()
	case rep.Status >= 400 && rep.Error == "" || ctx.Err() != nil:
	default:
		l.send(rep.encode(r.ID))
	}
}

// listen serves subscriptions/listen; false if a scripted reply shall answer it.
func (l *link) listen(ctx context.Context, r *Request) bool {
	if rep, ok := l.s.scripted(r); ok {
		l.s.pause(ctx, rep.Delay)
		l.reply(ctx, r, rep)
		return true
	}
	standing, ack := openListen(r)
	l.s.listen(standing)
	l.send(ack)
	defer l.s.unlisten(standing)
	for {
		select {
		case raw := <-standing.out:
			l.send(raw)
		case <-standing.stop:
			l.send(`{"jsonrpc":"2.0","id":` + string(r.ID) + `,"result":{"resultType":"complete"}}`)
			return true
		case <-ctx.Done():
			return true
		}
	}
}

// noise writes what Config.StderrBytes asks for, once.
func (s *Server) noise() {
	s.mu.Lock()
	n := s.cfg.StderrBytes
	s.cfg.StderrBytes = 0
	s.mu.Unlock()
	for range n / 80 {
		_, _ = os.Stderr.WriteString(strings.Repeat("e", 79) + "\n")
	}
}

// journal appends a line to Config.Journal.
func (s *Server) journal(line string) {
	if s.cfg.Journal == "" {
		return
	}
	f, err := os.OpenFile(s.cfg.Journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = f.WriteString(line + "\n")
}

// JournalCount tells how often a line is in a journal.
func JournalCount(file, line string) int {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	n := 0
	for l := range strings.Lines(string(text)) {
		if strings.TrimSpace(l) == line {
			n++
		}
	}
	return n
}

// childEnv names the variable that turns a test binary into a child.
const childEnv = "EVERLINE_MCPTEST_CHILD"

// Child returns what starts this test binary as a stdio server. Its TestMain
// must call RunChild first.
func Child(cfg Config) (command string, args []string, env map[string]string) {
	exe, err := os.Executable()
	if err != nil {
		panic("mcptest: " + err.Error())
	}
	raw, err := json.Marshal(cfg)
	if err != nil {
		panic("bug: " + err.Error())
	}
	// A race-enabled binary would sleep for a second before it exits.
	return exe, nil, map[string]string{childEnv: string(raw), "GORACE": "atexit_sleep_ms=0"}
}

// RunChild does nothing in a test process; in a child it serves on stdin and
// stdout and exits: 0 when stdin ended, 3 when a script said so. In a child the
// tool "work" with the argument "exit": true ends the process after it counted.
func RunChild() {
	raw := os.Getenv(childEnv)
	if raw == "" {
		return
	}
	var cfg Config
	if err := json.Unmarshal([]byte(raw), &cfg); err != nil {
		os.Exit(4)
	}
	s := New(cfg)
	s.journal("start")
	s.On(mcp.ToolsCall, func(r *Request) *Reply {
		if bytes.Contains(r.Params, []byte(`"exit":true`)) {
			return &Reply{Run: true, Exit: true}
		}
		return nil
	})
	if err := s.Serve(os.Stdin, os.Stdout); errors.Is(err, errExit) {
		time.Sleep(time.Millisecond) // lets stderr reach the parent before the exit does
		os.Exit(3)
	}
	os.Exit(0)
}
