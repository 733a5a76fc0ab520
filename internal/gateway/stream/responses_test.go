package stream

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestKeptResponsesAreBounded(t *testing.T) {
	store := &ResponseStore{}
	defer store.Close()
	begin := func(s *Responses, size int) *Response {
		r := s.Open("", nil)
		r.put([][]byte{make([]byte, 100)})
		r.finish(make([]byte, size))
		return r
	}
	crowd := store.Session()
	for range 3 * resumeEach {
		begin(crowd, 10)
	}
	if n := len(crowd.byNumber); n != resumeEach || crowd.byNumber[3*resumeEach] == nil {
		t.Errorf("%d are kept of one session, or not the newest", n)
	}
	large := store.Session()
	begin(large, resumeTotal+1)
	if len(large.byNumber) != 0 || store.bytes > resumeTotal {
		t.Errorf("%d bytes are kept", store.bytes)
	}
	begin(large, resumeTotal/2)
	begin(large, resumeTotal/2-1000)
	if len(crowd.byNumber) != 0 || len(large.byNumber) != 2 {
		t.Errorf("%d and %d are kept, want the newest", len(crowd.byNumber), len(large.byNumber))
	}
	noisy := large.Open("", nil)
	for range 2 * resumeFrames {
		noisy.put([][]byte{make([]byte, 1000)})
	}
	if noisy.bytes > resumeBytes || len(noisy.frames) > resumeFrames || noisy.next != 2*resumeFrames+1 {
		t.Errorf("%d frames of %d bytes are kept of one stream", len(noisy.frames), noisy.bytes)
	}
	large.End()
	if store.over.Len() != 0 || store.bytes != 0 {
		t.Errorf("%d are kept of sessions that have ended", store.over.Len())
	}
	noisy.finish(nil)
	if store.over.Len() != 0 {
		t.Error("a response that ends behind its session is kept")
	}
}

func TestKeptResponsesAreForgottenInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &ResponseStore{}
		defer store.Close()
		s := store.Session()
		kept := func() (numbers []uint64, bytes int) {
			synctest.Wait()
			store.mu.Lock()
			defer store.mu.Unlock()
			return slices.Sorted(maps.Keys(s.byNumber)), store.bytes
		}
		s.Open("", nil).finish([]byte("{}"))
		time.Sleep(resumeTime / 2)
		s.Open("", nil).finish([]byte("{}"))
		time.Sleep(resumeTime/2 + time.Second)
		if got, _ := kept(); !slices.Equal(got, []uint64{2}) {
			t.Errorf("%d are kept, want the newer", got)
		}
		time.Sleep(resumeTime)
		if got, bytes := kept(); len(got) != 0 || bytes != 0 {
			t.Errorf("%d are kept, of %d bytes", got, bytes)
		}
	})
}
