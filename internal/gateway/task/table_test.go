package task

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestTasksAreForgottenInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Table
		defer s.Close()
		var ended atomic.Int32
		add := func(owner string, ttl time.Duration) *Task {
			task := &Task{Owner: owner}
			s.Add(task, ttl, func() { ended.Add(1) })
			return task
		}
		short, long := add("1", time.Minute), add("1", time.Hour)
		time.Sleep(90 * time.Second)
		if s.Find(short.ID, "1") != nil || s.Find(long.ID, "1") != long || s.Find(long.ID, "2") != nil {
			t.Error("what is found is not the task that is left, by its own client")
		}
		time.Sleep(time.Minute)
		if ended.Load() != 1 || len(s.byID) != 1 {
			t.Errorf("%d ended, %d left", ended.Load(), len(s.byID))
		}
		for range mostOfClient {
			add("2", time.Hour)
		}
		first := s.byOwner["2"][0]
		add("2", time.Hour)
		if s.Find(first.ID, "2") != nil || len(s.byOwner["2"]) != mostOfClient || s.Find(long.ID, "1") == nil {
			t.Error("one client's tasks are not bounded, or cost another client one")
		}
		s.Forget("2")
		if len(s.byID) != 1 || ended.Load() != mostOfClient+2 {
			t.Errorf("%d left, %d ended", len(s.byID), ended.Load())
		}
		for len(s.byID) < mostTasks {
			add("", 2*time.Hour)
		}
		add("", 2*time.Hour)
		if len(s.byID) != mostTasks || s.Find(long.ID, "1") != nil {
			t.Error("all tasks are not bounded, or it is not the one with the least time that goes")
		}
	})
}
