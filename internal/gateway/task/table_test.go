package task

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline"
)

func TestTasksAreForgottenInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Table
		defer s.Close()
		var ended atomic.Int32
		add := func(owner string, ttl time.Duration) *Task {
			task := &Task{Owner: owner}
			s.Add(task, nil, ttl, func() { ended.Add(1) })
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

// The tasks of a session that is put away stay as long as they are good, tied to nothing of
// it; what its own processes had is lost with them.
func TestTasksOfASessionThatIsPutAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Table
		defer s.Close()
		var ended, dropped atomic.Int32
		add := func(holder everline.Answer) *Task {
			task := &Task{Owner: "1", Client: 7, Holder: holder}
			s.Add(task, &everline.Session{}, time.Hour, func() { dropped.Add(1) })
			return task
		}
		kept := []*Task{add(everline.Answer{}), add(everline.Answer{Mortal: true}), add(everline.Answer{Client: 5})}
		own := add(everline.Answer{Mortal: true, Client: 7})
		watch, slow := s.Watch(kept[0]), s.Watch(kept[1])
		s.Watching(kept[0], watch, func() { ended.Add(1) })
		if s.Watch(kept[0]) != nil || s.Client("1") != 7 || s.Client("2") != 0 {
			t.Error("a task is watched twice, or its client is another")
		}
		s.PutAway("1", func(*Task) []byte { return []byte("lost") })
		if ended.Load() != 1 || dropped.Load() != 0 {
			t.Errorf("%d watches have ended, %d tasks are forgotten", ended.Load(), dropped.Load())
		}
		if s.Watching(kept[1], slow, func() { ended.Add(1) }); ended.Load() != 2 {
			t.Error("a watch that comes late stays")
		}
		for _, task := range kept {
			if s.Find(task.ID, "1") != task || s.Session(task) != nil || s.Result(task) != nil {
				t.Error("a task is gone, or still of the session that was put away")
			}
		}
		if string(s.Result(own)) != "lost" {
			t.Error("a task goes on in a process that has ended")
		}
		again := s.Watch(kept[0])
		if again == nil {
			t.Fatal("it cannot be watched again")
		}
		s.Unwatch(kept[0], watch)
		if s.Watch(kept[0]) != nil {
			t.Error("a watch that is over ends that of another")
		}
		if s.Unwatch(kept[0], again); s.Watch(kept[0]) == nil {
			t.Error("one that failed is not tried again")
		}
		time.Sleep(time.Hour + 2*sweepEvery)
		if dropped.Load() != 4 || s.Len() != 0 {
			t.Errorf("%d are forgotten when their time is over", dropped.Load())
		}
	})
}
