package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// These run on the fake clock of a bubble, so their times are exact.

// A diary is a sink that notes when it was used.
type diary struct {
	start time.Time
	log   []string
	err   error
}

func (d *diary) Write(frames [][]byte) error {
	for _, f := range frames {
		_, method, _ := strings.Cut(string(f), "notifications/")
		d.log = append(d.log, fmt.Sprintf("%v %s", time.Since(d.start), method[:strings.IndexByte(method, '/')]))
	}
	return d.err
}

func (d *diary) Alive() error {
	d.log = append(d.log, fmt.Sprintf("%v :", time.Since(d.start)))
	return nil
}

func TestAnnouncementsAndKeepAlives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := NewListVersions()
		d := &diary{start: time.Now()}
		w := NewWriter(Options{Sink: d, Outbox: NewOutbox(), Lists: lists, KeepAlive: 15 * time.Second})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }() // ends with ctx
		synctest.Wait()
		time.Sleep(20 * time.Second)
		lists.Publish(Tools)
		synctest.Wait()
		time.Sleep(10 * time.Millisecond)
		lists.Publish(Tools)
		lists.Publish(Prompts)
		synctest.Wait()
		time.Sleep(20 * time.Second)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		want := "15s :,20s tools,20.1s tools,20.1s prompts,35.1s :"
		if got := strings.Join(d.log, ","); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}
