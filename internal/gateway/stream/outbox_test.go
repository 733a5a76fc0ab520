package stream

import (
	"bytes"
	"fmt"
	"testing"
)

// What waits for a client that does not read is bounded in bytes as well.
func TestOutboxBytes(t *testing.T) {
	f := NewOutbox()
	for range 1000 {
		f.Log(make([]byte, 1<<20))
	}
	frames, ok := f.Take()
	if !ok || len(frames) != maxLogBytes>>20 {
		t.Errorf("%d log messages, %v", len(frames), ok)
	}
	f.Log(make([]byte, 2*maxLogBytes)) // alone it may be of any size
	if frames, _ := f.Take(); len(frames) != 1 {
		t.Error("a large log message is lost")
	}

	big := make([]byte, maxWaiting/4)
	for i := range 20 { // one resource waits once
		f.Update("a", big[:len(big)-i])
	}
	f.Update("b", big)
	f.Forget("b")
	f.Update("c", big)
	f.Update("d", big)
	f.Send(big)
	if frames, ok := f.Take(); !ok || len(frames) != 4 {
		t.Errorf("%d frames, %v", len(frames), ok)
	}
	for i := range 5 {
		f.Update(fmt.Sprint(i), big)
	}
	f.Send(big)
	f.Log(big)
	if f.frames != nil || f.updates != nil || f.logs != nil || f.bytes != 0 {
		t.Error("something is kept for a client that is cut off")
	}
	if frames, ok := f.Take(); ok || frames != nil {
		t.Errorf("the client is not cut off: %d frames, %v", len(frames), ok)
	}
	f.Update("a", big) // of a session whose next stream is read
	if frames, ok := f.Take(); !ok || len(frames) != 1 {
		t.Errorf("the next stream gets %d frames, %v", len(frames), ok)
	}
}

func TestOutboxCutsOff(t *testing.T) {
	f := NewOutbox()
	for i := range maxFrames + 1 {
		f.Send(fmt.Append(nil, i))
	}
	if frames, ok := f.Take(); ok || frames != nil {
		t.Errorf("%d frames after the cut", len(frames))
	}
	g := NewOutbox()
	for range 2 * maxLogs {
		g.Log([]byte("x"))
	}
	g.Update("a", []byte("1"))
	g.Update("b", []byte("2"))
	g.Update("a", []byte("3"))
	g.Forget("b")
	if frames, ok := g.Take(); !ok || len(frames) != maxLogs+1 || string(frames[0]) != "3" {
		t.Errorf("%d frames", len(frames))
	}
}

func TestOutboxKeepsTheOrder(t *testing.T) {
	o := NewOutbox()
	o.Log([]byte("a"))
	o.Send([]byte("b"))
	o.Log([]byte("c"))
	o.Log([]byte("d"))
	o.Send([]byte("e"))
	o.Update("x", []byte("u"))
	o.Log([]byte("f"))
	for _, wanted := range []string{"u a b c d e f", ""} {
		frames, ok := o.Take()
		if got := string(bytes.Join(frames, []byte(" "))); got != wanted || !ok {
			t.Errorf("taken: %q, %v", got, ok)
		}
	}
}
