package drive

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline/internal/wire"
)

// A stdioSession is a server as a child of ours, without a gateway. One
// goroutine reads; callers share the connection.
type stdioSession struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	ended chan struct{} // closed when the reader has returned
	next  atomic.Int64

	write sync.Mutex // keeps lines whole

	mu      sync.Mutex // guards waiting; nothing that waits happens under it
	waiting map[int64]chan []byte
}

// Spawn starts a server and opens its session.
func Spawn(ctx context.Context, argv []string) (Session, error) {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), argv[0], argv[1:]...) // it outlives the handshake, until Close
	s := &stdioSession{cmd: cmd, ended: make(chan struct{}), waiting: map[int64]chan []byte{}}
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	s.in = in
	go s.read(out) // ends when the child closes its stdout, which Close sees to
	if _, err := s.Call(ctx, "initialize", []byte(hello)); err != nil {
		s.Close()
		return nil, err
	}
	return s, s.send(wire.AppendNotification(nil, "notifications/initialized", nil))
}

// PID is the process id of a spawned session's server; 0 for others.
func PID(s Session) int {
	if c, ok := s.(*stdioSession); ok {
		return c.cmd.Process.Pid
	}
	return 0
}

func (s *stdioSession) read(out io.Reader) {
	defer close(s.ended)
	r := bufio.NewReaderSize(out, 64<<10)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		m, err := wire.Parse(line)
		id, ok := wire.Int(m.ID)
		if err != nil || !ok || !m.IsResponse() {
			continue
		}
		s.mu.Lock()
		waiting := s.waiting[id]
		delete(s.waiting, id)
		s.mu.Unlock()
		if waiting != nil {
			waiting <- line // has room for it
		}
	}
}

func (s *stdioSession) send(frame []byte) error {
	s.write.Lock()
	defer s.write.Unlock()
	_, err := s.in.Write(append(frame, '\n'))
	return err
}

func (s *stdioSession) Call(ctx context.Context, method string, params []byte) ([]byte, error) {
	id := s.next.Add(1)
	answer := make(chan []byte, 1)
	s.mu.Lock()
	s.waiting[id] = answer
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.waiting, id)
		s.mu.Unlock()
	}()
	if err := s.send(wire.AppendRequest(make([]byte, 0, 128+len(params)), id, method, params)); err != nil {
		return nil, err
	}
	select {
	case line := <-answer:
		return answerTo(bytes.TrimSpace(line), id)
	case <-s.ended:
		return nil, fmt.Errorf("the server ended: %w", io.ErrUnexpectedEOF)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close ends the server: stdin first, then by force after 2 s.
func (s *stdioSession) Close() {
	_ = s.in.Close()
	select {
	case <-s.ended:
	case <-time.After(2 * time.Second):
		_ = s.cmd.Process.Kill()
	}
	_ = s.cmd.Wait() // how it ended does not matter
}
