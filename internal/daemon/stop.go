package daemon

import (
	"context"
	"errors"
	"net/http"
	"os"
	"sync"
	"time"
)

// ErrForced is what Serve fails with if a third signal ended it: it waited for
// nothing.
var ErrForced = errors.New("stopped before everything had ended")

// untilStopped runs the daemon until a signal, and then ends it: in order at
// the first one, without waiting for calls at the second, and without waiting
// for anything at the third.
func (d *daemon) untilStopped(ctx context.Context, stop, reload <-chan os.Signal) error {
	for {
		select {
		case <-reload:
			d.reloadNow(ctx)
			continue
		case s := <-stop:
			d.parts.Log.Info("stopping: calls in flight may finish", "signal", s.String(), "for", d.hub.Config().DrainTimeout.String())
		case <-ctx.Done():
		}
		break
	}
	notifySystemd("STOPPING=1\nSTATUS=stopping: calls in flight may finish\n" + extendTimeout(d.hub.Config().DrainTimeout+stopMargin+forceMargin))
	force, now := context.WithCancel(context.Background())
	defer now()
	done := make(chan error, 1)
	go func() { done <- d.close(force) }() // ends within its own deadlines; waited for below
	select {
	case err := <-done:
		return err
	case s := <-stop:
		d.parts.Log.Warn("stopping immediately", "signal", s.String())
		now()
	}
	select {
	case err := <-done:
		return err
	case <-stop:
		return ErrForced
	}
}

const (
	// stopMargin is how long servers may take to end once their calls are over.
	stopMargin = 10 * time.Second
	// forceMargin is the same once a second signal has come: long enough to end
	// processes by force, so that none is left behind.
	forceMargin = 4 * time.Second
	// lastAnswers is how long the answers may take that are being written in the end.
	lastAnswers = time.Second
)

// close lets what is in flight finish until the drain deadline, and ends the
// servers. The endpoint is the last to go: until then it answers clients with when
// to come again, where their connections would otherwise be refused. Where the
// service manager has the socket the endpoint is the first to go, because new
// connections wait for the next everline. When force ends, calls are no longer
// waited for, and servers only as long as it takes to kill them.
func (d *daemon) close(force context.Context) error {
	drain, cancel := context.WithTimeout(force, d.hub.Config().DrainTimeout)
	defer cancel()
	d.api.EndStreams()
	if d.site != nil {
		d.site.EndStreams()
	}
	var closing sync.WaitGroup
	closing.Go(func() { shutDown(drain, d.adminServer) })   // ends with drain
	closing.Go(func() { shutDown(drain, d.metricsServer) }) // likewise
	if d.parts.handed != nil {
		d.leave(drain)
	}
	failed := d.gateway.Close(drain)
	closing.Wait()
	stop, cancelStop := context.WithTimeout(context.Background(), stopMargin)
	defer cancelStop()
	defer context.AfterFunc(force, func() { time.AfterFunc(forceMargin, cancelStop) })()
	if err := d.hub.Close(stop); err != nil {
		failed = err
	}
	last, cancelLast := context.WithTimeout(context.Background(), lastAnswers)
	defer cancelLast()
	shutDown(last, d.server)
	d.end()
	d.running.Wait()
	if err := d.closeTelemetry(); err != nil {
		d.parts.Log.Warn("not everything was exported", "cause", err)
	}
	failed = errors.Join(failed, d.closeAudit())
	if d.sessions != nil {
		return errors.Join(failed, d.sessions.Close())
	}
	return failed
}

// lastRequests is how long a connection without a request stays open for one more.
// Who sends a request in the moment in which an idle connection is closed could not
// know whether it was taken.
const lastRequests = 200 * time.Millisecond

// leave accepts no connection any more, and serves those that are open until each
// has had its answer, or ctx ends.
func (d *daemon) leave(ctx context.Context) {
	_ = d.parts.handed.Close() // the service manager has the socket
	over := make(chan struct{})
	go func() { // ends with ctx
		defer close(over)
		select {
		case <-time.After(lastRequests):
			_ = d.server.Shutdown(ctx) // what is left then is ended by close
		case <-ctx.Done():
		}
	}()
	d.gateway.Leave(over)
}

// shutDown ends a server in order until ctx ends, and then immediately. A nil one
// was never started.
func shutDown(ctx context.Context, s *http.Server) {
	if s != nil && s.Shutdown(ctx) != nil {
		_ = s.Close() // Shutdown has failed, and this cannot
	}
}
