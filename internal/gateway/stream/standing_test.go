package stream

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// eventually waits for a condition that other goroutines bring about.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(45 * time.Second)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		runtime.Gosched()
	}
}

func TestWhatIsKeptForResumingIsBounded(t *testing.T) {
	s := &Standing{}
	for i := range 10 * replayFrames {
		s.keep([][]byte{[]byte(fmt.Sprint(i))})
	}
	if first, frames := s.missed(eventPrefix + "0"); len(frames) != replayFrames || first != 9*replayFrames || string(frames[0]) != fmt.Sprint(first) {
		t.Errorf("%d frames from %d on: %s", len(frames), first, frames[0])
	}
	s.keep([][]byte{make([]byte, replayBytes), make([]byte, 1)})
	if _, frames := s.missed(eventPrefix + "0"); len(frames) != 1 || s.bytes != 1 {
		t.Errorf("%d frames, %d bytes", len(frames), s.bytes)
	}
}

// A sink that counts.
type countSink struct{ n atomic.Int64 }

func (s *countSink) Write(frames [][]byte) error { s.n.Add(int64(len(frames))); return nil }
func (*countSink) Alive() error                  { return nil }

// Once a stream has taken over, nothing goes out on the one before.
func TestFaultN6NothingGoesToAStreamThatWasReplaced(t *testing.T) {
	lists := NewListVersions()
	for i := range 1000 {
		s, out := &Standing{}, NewOutbox()
		var both sync.WaitGroup
		open := func() *countSink {
			sink, st := &countSink{}, s.Attach()
			w := NewWriter(Options{Sink: sink, Outbox: out, Lists: lists, KeepAlive: time.Minute, Turn: st.Turn, Over: st.Over()})
			both.Go(func() { _ = w.Run(context.Background()) }) // ends with st, or the session
			return sink
		}
		first := open()
		runtime.Gosched()
		second := open()
		out.Update("file:///a", []byte(`{}`))
		eventually(t, "the update", func() bool { return first.n.Load()+second.n.Load() > 0 })
		if n := first.n.Load(); n > 0 {
			t.Fatalf("round %d: it went to the stream that was over", i)
		}
		s.End()
		both.Wait()
	}
}

// What a stream has taken has its number before another takes over, and so is
// among what that one replays.
func TestFaultN6WhatWasTakenIsReplayed(t *testing.T) {
	s, out := &Standing{}, NewOutbox()
	s.keep([][]byte{[]byte(`{"told":0}`)})
	old := s.Attach()
	out.Update("file:///a", []byte(`{"told":1}`))
	<-out.wake
	taking, took := make(chan struct{}), make(chan bool, 1)
	go func() { // ends once it has taken
		took <- old.Turn(func() [][]byte {
			close(taking)
			runtime.Gosched()
			frames, _ := out.Take()
			return frames
		})
	}()
	<-taking
	s.Attach()
	if first, missed := s.missed(eventPrefix + "0"); first != 1 || len(missed) != 1 {
		t.Errorf("missed %q from %d on", missed, first)
	}
	if !<-took || old.Turn(func() [][]byte { return nil }) {
		t.Error("the turn was refused before the takeover, or granted after it")
	}
	late := NewWriter(Options{Outbox: out, Turn: old.Turn})
	if _, _, err := late.take(&Versions{}, true); !errors.Is(err, ErrOver) || len(out.wake) != 1 {
		t.Errorf("%v; a wake that was not for it is passed on %d times", err, len(out.wake))
	}
}
