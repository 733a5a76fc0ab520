package gateway

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/access"
	"github.com/everline/everline/internal/gateway/session"
	"github.com/everline/everline/internal/gateway/stream"
	"github.com/everline/everline/internal/gateway/task"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
	"github.com/everline/everline/internal/tracing"
)

// A service answers requests of one identity, by whatever transport they came. It has
// what outlives a request: sessions, calls in flight, outcomes, tasks. None of them is
// looked for anywhere else, so for every other identity they do not exist. It knows
// neither HTTP nor pipes.
type service struct {
	backend  Backend
	opts     Options
	who      *access.Identity
	endpoint string // under what sessions and outcomes are kept; see partKey
	info     []byte // serverInfo, encoded
	envs     [len(listMembers)]listEnvelope
	lists    *stream.ListVersions
	sessions *session.Store
	inflight inflight
	inputs   inputs
	results  results
	tasks    task.Table
	kept     taskRecord // of them
	waits    taskWaits
	offered  atomic.Pointer[offered]
	usage    *usage // of who, here and elsewhere

	definitions definitions
	callers     callers

	durations *tracing.Durations // of the Recorder; nil: none are noted

	began    time.Time
	stop     chan struct{} // closed by Leave and Close: streams end in order
	refusing atomic.Bool   // set by Close: requests are refused
}

func (svc *service) init(who *access.Identity, endpoint string, b Backend, opts Options, use *usage, all *session.Room) {
	svc.who, svc.usage, svc.callers.subject = who, use, who.Subject()
	svc.backend, svc.opts, svc.stop, svc.began = b, opts, make(chan struct{}), time.Now()
	svc.durations = tracing.DurationsOf(opts.Recorder)
	svc.info = implementation(opts.Name, opts.Version)
	svc.envs = listEnvelopes(svc.info, opts.ListTTL)
	svc.lists = stream.NewListVersions()
	svc.sessions = session.NewStore(session.Options{
		Endpoint: endpoint, Subject: who.Subject(), Kept: opts.Sessions, Lists: svc.lists, Own: &use.sessions, All: all, Limit: svc.maxSessions, Most: opts.MaxSessions, Meter: opts.Meter, Idle: opts.SessionIdle,
		Subscribe: b.SubscribeFor, SetLevel: b.SetLevel,
		Forget: svc.tasks.Forget, PutAway: func(owner string) { svc.tasks.PutAway(owner, lostWithSession) }, Client: svc.tasks.Client,
		Changed: svc.sessionChanged, Durations: svc.durations, Warn: opts.Warn,
	})
	svc.endpoint = endpoint
	if opts.Sessions != nil {
		svc.results.restore(opts.Sessions.TakeResults(endpoint))
		svc.kept.save, svc.kept.fail, svc.tasks.Changed = svc.saveTasks, svc.tasksUnsaved, svc.kept.changed
		svc.tasks.Restore(opts.Sessions.Tasks(endpoint), lostWithEverline)
		svc.kept.changed() // what is over by now is not kept
	}
	svc.inflight.init(svc.results.awaited)
	svc.inputs.sealer = newSealer()
}

// leaving tells whether streams have been ended.
func (svc *service) leaving() bool {
	select {
	case <-svc.stop:
		return true
	default:
		return false
	}
}

func (svc *service) closing() bool { return svc.refusing.Load() }

// drain waits for what is in flight; see Gateway.Close.
func (svc *service) drain(ctx context.Context) error {
	err := svc.inflight.drain(ctx)
	svc.inputs.close()
	svc.waits.close()
	return err
}

func (svc *service) close() error {
	svc.kept.close()
	var err error
	if svc.opts.Sessions != nil { // sessions that end take their tasks with them
		err = errors.Join(svc.opts.Sessions.SaveResults(svc.endpoint, svc.results.export()), svc.saveTasks())
	}
	svc.sessions.Close()
	svc.tasks.Close()
	return err
}

func (svc *service) saveTasks() error {
	return svc.opts.Sessions.SaveTasks(svc.endpoint, svc.tasks.Export(session.Lasts))
}

func (svc *service) tasksUnsaved(err error) {
	if svc.opts.Warn != nil {
		svc.opts.Warn("tasks cannot be kept; a restart loses them: " + err.Error())
	}
}

// offer is what is declared to clients now.
func (svc *service) offer() *offered {
	table := svc.backend.Catalog()
	if o := svc.offered.Load(); o != nil && o.table == table {
		return o
	}
	o := offer(table)
	svc.offered.Store(o)
	return o
}

// changed announces what is published now.
func (svc *service) changed(kinds []everline.Kind) {
	svc.lists.Publish(session.ListsOf(kinds))
}

// errPanic is why a request ends whose code panicked.
var errPanic = fault.New(fault.Internal, "serve", "a panic")

// guarded calls fn, and returns errPanic if it panics: that ends the request
// whose goroutine this is, and not the process.
func (svc *service) guarded(what string, fn func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			svc.panicked(what, p)
			err = errPanic
		}
	}()
	fn()
	return nil
}

func (svc *service) panicked(what string, p any) {
	if svc.opts.Warn != nil {
		svc.opts.Warn(fmt.Sprintf("panic in %s: %v\n%s", what, p, debug.Stack()))
	}
}

// exchange returns the exchange of a message, for its transport to complete. It
// is here that a tool is looked up, once.
func (svc *service) exchange(m *message.Message) *exchange {
	x := &exchange{Message: m, began: time.Now(), name: m.Fields.Meta.Session}
	if m.Method != mcp.ToolsCall {
		return x
	}
	name, _ := m.ItemName()
	x.target, _ = svc.backend.Catalog().Tool(name)
	if x.known() && svc.opts.Keep != nil {
		x.keep = svc.opts.Keep(x.target.Server)
	}
	return x
}

// rescue turns a panic of this request into its answer; the others go on.
func (svc *service) rescue(x *exchange, a *message.Answer) {
	p := recover()
	if p == nil {
		return
	}
	svc.panicked(x.Method, p)
	*a = x.Failure(errPanic)
}
