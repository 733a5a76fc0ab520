package gateway

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/gateway/stream"
	"github.com/everline/everline/internal/gateway/task"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
	"github.com/everline/everline/internal/wire"
)

// subscribeLimit is how long the acknowledgement of a listen waits for servers
// to accept subscriptions. A resource whose server did not answer by then is
// left out of it.
const subscribeLimit = 5 * time.Second

// A listener is one subscriptions/listen (basic/patterns/subscriptions).
type listener struct {
	svc     *service
	request *exchange
	id      []byte // raw id of the request, which is the subscription's id
	want    stream.Lists
	uris    []string
	tasks   []*task.Task
	session *everline.Session // whose generations are asked for updates; nil for those that are shared
	outbox  *stream.Outbox
	since   stream.Versions // what the client has heard of
	cancel  []func()        // the subscriptions with servers
}

// newListener reads the filter of a listen. Whatever changes from here on is
// heard.
func (svc *service) newListener(x *exchange) (*listener, *message.Answer) {
	if !wire.IsObject(x.Fields.Notifications) {
		return nil, x.Refusal(mcp.CodeInvalidParams, "Invalid params: notifications is missing", nil)
	}
	l := &listener{
		svc: svc, request: x, id: x.ID, outbox: stream.NewOutbox(), since: svc.lists.Newest(), want: stream.ListsOf(x.Fields.Notifications),
	}
	seen := map[string]bool{}
	for key, val := range wire.Members(x.Fields.Notifications) {
		switch key {
		case "taskIds":
			if !x.DeclaresTasks() {
				return nil, x.lacksTasks()
			}
			l.tasks = svc.listenedTasks(x, val)
		case "resourceSubscriptions":
			for raw := range wire.Elements(val) {
				if uri, ok := wire.Text(raw); ok && !seen[uri] && len(l.uris) < stream.MaxSubscribed {
					seen[uri] = true
					l.uris = append(l.uris, uri)
				}
			}
		}
	}
	return l, nil
}

// subscribe asks the servers for updates of the resources and for the news of the
// tasks, all at the same time, and keeps what was accepted.
func (l *listener) subscribe(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, subscribeLimit)
	defer stop()
	uris, tasks := l.uris, l.tasks
	cancels := make([]func(), len(uris)+len(tasks))
	var all sync.WaitGroup
	ask := func(i int, subscribe func() (cancel func(), err error)) {
		all.Go(func() {
			_ = l.svc.guarded(mcp.SubscriptionsListen, func() { // what panics is not in the acknowledgement
				if cancel, err := subscribe(); err == nil {
					cancels[i] = cancel
				}
			})
		})
	}
	for i, uri := range uris {
		ask(i, func() (func(), error) {
			return l.svc.backend.SubscribeFor(ctx, l.session, uri, func(params []byte) {
				l.outbox.Update(uri, l.tagged(mcp.NotifyResourceUpdated, params))
			})
		})
	}
	for i, t := range tasks {
		ask(len(uris)+i, func() (func(), error) { return l.watch(ctx, t) })
	}
	all.Wait()
	l.uris, l.tasks = nil, nil
	for i, cancel := range cancels {
		switch {
		case cancel == nil:
			continue
		case i < len(uris):
			l.uris = append(l.uris, uris[i])
		default:
			l.tasks = append(l.tasks, tasks[i-len(uris)])
		}
		l.cancel = append(l.cancel, cancel)
	}
}

// watch hears the news of one task. What a server of 2025-11-25 tells is not all that a
// client of the extension is to be told: there it is looked up.
func (l *listener) watch(ctx context.Context, t *task.Task) (cancel func(), err error) {
	tell := func(state []byte) { l.outbox.Update("task "+t.ID, l.tagged(mcp.NotifyTasks, state)) }
	news := func(params []byte) { tell(wire.Set(params, wire.AppendString(nil, t.ID), "taskId")) }
	end := func() {}
	if t.Kind == task.Core {
		news, end = l.look(ctx, t, tell)
	}
	leave, err := l.svc.backend.WatchTask(ctx, l.svc.tasks.Session(t), t.Holder.Server, t.ServerID, func(params []byte) {
		if wire.Get(params, "taskId") != nil {
			news(params)
		}
	})
	if err != nil {
		end()
		return nil, err
	}
	return func() { leave(); end() }, nil
}

// look looks at a task, and tells its state, whenever there are news of it, until end is
// called, which waits.
func (l *listener) look(ctx context.Context, t *task.Task, tell func(state []byte)) (news func([]byte), end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	wake, over := make(chan struct{}, 1), make(chan struct{})
	asks := *l.request.Message
	asks.Method = mcp.TasksGet
	c := (&exchange{Message: &asks, client: l.request.client, request: l.request.request}).caller(nil)
	go func() { // ends with end
		defer close(over)
		for {
			select {
			case <-wake:
			case <-ctx.Done():
				return
			}
			_ = l.svc.guarded(mcp.NotifyTasks, func() {
				if state, err := l.svc.askTask(ctx, c, t); err == nil {
					tell(wire.Delete(state, "resultType"))
				}
			})
		}
	}()
	news = func([]byte) {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	return news, func() { cancel(); <-over }
}

// run acknowledges, and then tells until the client or the gateway ends it.
// When it was the gateway, the request is answered.
func (l *listener) run(ctx context.Context, out stream.Sink) error {
	defer l.close()
	l.subscribe(ctx)
	if err := out.Write([][]byte{l.ack()}); err != nil {
		return err
	}
	err := stream.NewWriter(stream.Options{
		Sink: out, Outbox: l.outbox, Lists: l.svc.lists, KeepAlive: l.svc.opts.KeepAlive, Announced: l.since, Stop: l.svc.stop,
		Want: func() stream.Lists { return l.want }, Note: func(method string) []byte { return l.tagged(method, nil) },
	}).Run(ctx)
	if errors.Is(err, stream.ErrStopped) {
		return out.Write([][]byte{l.farewell()})
	}
	return err
}

func (l *listener) close() {
	for _, cancel := range l.cancel {
		cancel()
	}
	l.outbox.Close()
}

// tagged is a notification that names its subscription.
func (l *listener) tagged(method string, params []byte) []byte {
	return wire.AppendNotification(nil, method, wire.Set(params, l.id, "_meta", mcp.MetaSubscription))
}

func (l *listener) ack() []byte {
	b := append([]byte(`{"_meta":{"`+mcp.MetaSubscription+`":`), l.id...)
	b = append(b, `},"notifications":{`...)
	comma := func() {
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
	}
	for name := range l.want.Filters() {
		comma()
		b = append(b, `"`+name+`":true`...)
	}
	if len(l.uris) > 0 {
		comma()
		b = append(b, `"resourceSubscriptions":[`...)
		for i, uri := range l.uris {
			if i > 0 {
				b = append(b, ',')
			}
			b = wire.AppendString(b, uri)
		}
		b = append(b, ']')
	}
	if len(l.tasks) > 0 {
		comma()
		b = append(b, `"taskIds":[`...)
		for i, t := range l.tasks {
			if i > 0 {
				b = append(b, ',')
			}
			b = wire.AppendString(b, t.ID)
		}
		b = append(b, ']')
	}
	return wire.AppendNotification(nil, mcp.NotifyAcknowledged, append(b, "}}"...))
}

// farewell is the response that ends a subscription in order.
func (l *listener) farewell() []byte {
	b := append([]byte(`{"resultType":"complete","_meta":{"`+mcp.MetaSubscription+`":`), l.id...)
	b = append(append(b, `,"`+mcp.MetaServerInfo+`":`...), l.svc.info...)
	return wire.AppendResult(nil, l.id, append(b, "}}"...))
}

// canceled is the notification that ends a subscription on stdio (basic/
// patterns/cancellation); the response, which the page on subscriptions asks
// for instead, has gone before.
func (l *listener) canceled() []byte {
	return wire.AppendNotification(nil, mcp.NotifyCancelled, append(append([]byte(`{"requestId":`), l.id...), '}'))
}

// listenHTTP serves a listen on its own response stream.
func (g *Gateway) listenHTTP(r *http.Request, x *exchange, w http.ResponseWriter) {
	l, bad := g.newListener(x)
	if bad != nil {
		writeJSON(w, bad)
		return
	}
	g.opts.Meter.Listens.Add(1)
	defer g.opts.Meter.Listens.Add(-1)
	defer g.shared.listens.Add(-1)
	if g.shared.listens.Add(1) > int64(g.opts.MaxListens) {
		g.crowded(w, x.Message, "Too many subscriptions are open")
		return
	}
	good, end := g.whileGood(r.Context())
	defer end()
	ctx, p, err := g.inflight.begin(good, x)
	if err != nil {
		a := x.Failure(fault.From(mcp.SubscriptionsListen, err))
		writeJSON(w, &a)
		return
	}
	defer g.inflight.end(p)
	if s := g.pinNamed(x); s != nil {
		defer g.sessions.Unpin(s)
		l.session = &s.Isolated
	}
	events := g.events(w)
	defer events.Close()
	if events.Open() != nil {
		return
	}
	_ = l.run(ctx, events) // the end of the stream is all that there is to tell
}
