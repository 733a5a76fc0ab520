package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/audit"
	"github.com/everline/everline/internal/door"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/typed"
	"github.com/everline/everline/internal/usage"
)

// Hub is what the API needs; *everline.Hub is one.
type Hub interface {
	Config() *config.Config
	Warnings() []config.Warning
	Status() []everline.Status
	Server(name string) (everline.Status, bool)
	Logs(server string) ([]everline.LogLine, error)
	Catalog() *everline.Catalog
	CallTool(ctx context.Context, name string, args any, opts ...everline.CallOption) (*everline.ToolResult, error)
	Enable(ctx context.Context, server string) error
	Disable(ctx context.Context, server string) error
	Reconnect(ctx context.Context, server string) error
	Orphans() []everline.Orphan
	Problems() []everline.Problem
	PinChanges() []everline.PinChange
	Approve(ctx context.Context, server, tool string) (int, error)
	Await(ctx context.Context, server string, gen uint64) (everline.Status, error)
	Drill(ctx context.Context, server string, d everline.Drill) (everline.DrillReport, error)
	Call(ctx context.Context, c *everline.Call) ([]byte, error)
	Ping(ctx context.Context, server string) error
	HideTokens(text string) string
	Login(ctx context.Context, server string, o everline.LoginOptions) (*everline.Login, error)
	Logout(ctx context.Context, server string, all bool) error
}

// Options make an API. Hub is required; without a Journal there are no events.
type Options struct {
	Hub      Hub
	Journal  *Journal
	Endpoint string // the URL for MCP clients
	Version  string
	StateDir string
	Config   []string // the configuration files
	// Listen is the address that the configuration named when the endpoint was
	// opened; "" if it does not say where that is.
	Listen string
	// Stuck names the parts of the program that do not answer, within seconds; may be nil.
	Stuck func(ctx context.Context) []string
	// Metrics answers GET /v1/metrics; nil where there are none.
	Metrics http.Handler
	// Page hands out what opens the page with the right to act; nil where there is none.
	Page Page
	// Audit records what is done; nil: nothing is recorded.
	Audit *audit.Log
	// Watch observes calls as gateway.Options has it; nil: nothing does.
	Watch func(params []byte, next func(event.CallFacts)) func(event.CallFacts)
	// Exposed is what is open to everybody now. It does not wait. May be nil.
	Exposed func() []Exposure
	// Reload reads the files again, or with dryRun only says what that would
	// change; nil where there are none.
	Reload func(ctx context.Context, dryRun bool) (Reload, error)
}

// An API answers the admin requests. It has no goroutine of its own.
type API struct {
	opts      Options
	started   time.Time
	places    int    // maxStarting, which the hub was opened with
	metricsAt string // metricsListen, likewise
	auditAt   string // audit.path, likewise
	hider     atomic.Pointer[hider]
	broken    atomic.Pointer[refusal] // why the configuration is not reloaded; nil if it is
	usage     usage.Recent
	well      wellness
	questions questions
	begun     logins
	stop      chan struct{} // closed by EndStreams
	end       func()
}

// AuditFolder is where the record is in a state folder.
const AuditFolder = "audit"

// A refusal is why files are not applied, and since when none were that are
// newer than the applied ones.
type refusal struct {
	fault *fault.Fault
	since time.Time
}

// A hider belongs to one configuration.
type hider struct {
	cfg  *config.Config
	hide func(string) string
}

// New returns an API on the hub; the process counts as started now.
func New(o Options) *API {
	if o.Journal == nil {
		o.Journal = NewJournal()
	}
	stop := make(chan struct{})
	return &API{opts: o, started: time.Now(), places: o.Hub.Config().MaxStarting, metricsAt: o.Hub.Config().MetricsListen, auditAt: o.Hub.Config().Audit.Path, stop: stop, end: sync.OnceFunc(func() { close(stop) })}
}

// EndStreams ends everything that follows events or logs, so that a server
// that shuts down waits for calls alone. It is idempotent.
func (a *API) EndStreams() { a.end() }

// Hide takes the secrets of the present configuration, and tokens, out of a text.
func (a *API) Hide(text string) string { return a.hide()(text) }

// HideData is Hide for the data of an event.
func (a *API) HideData(d map[string]any) map[string]any { return hideData(d, a.hide()) }

// hide makes a new replacer only after the configuration was replaced.
func (a *API) hide() func(string) string {
	cfg := a.opts.Hub.Config()
	if h := a.hider.Load(); h != nil && h.cfg == cfg {
		return h.hide
	}
	configured := cfg.Hider()
	h := &hider{cfg, func(text string) string { return a.opts.Hub.HideTokens(configured(text)) }}
	a.hider.Store(h)
	return h.hide
}

// ConfigError makes status say that the configuration on disk is not applied,
// and why; nil says that it is.
func (a *API) ConfigError(err error) {
	if err == nil {
		a.broken.Store(nil)
		return
	}
	r := &refusal{fault.From("reload", err), time.Now()}
	if old := a.broken.Load(); old != nil {
		r.since = old.since
	}
	a.broken.Store(r)
}

// NeedsRestart says what of a configuration takes effect only in an everline
// that is started again.
func (a *API) NeedsRestart(cfg *config.Config) []string {
	var needs []string
	if a.opts.Listen != "" && cfg.Listen != a.opts.Listen {
		needs = append(needs, "the listen address changes from "+a.opts.Listen+" to "+cfg.Listen+" only with a restart of everline")
	}
	if cfg.MaxStarting != a.places {
		needs = append(needs, fmt.Sprintf("maxStarting changes from %d to %d only with a restart of everline", a.places, cfg.MaxStarting))
	}
	if cfg.Audit.Path != a.auditAt {
		needs = append(needs, "audit.path takes effect only with a restart of everline")
	}
	if cfg.MetricsListen != a.metricsAt {
		needs = append(needs, "metricsListen takes effect only with a restart of everline")
	}
	return needs
}

// Handler serves the API. It checks no identity: anybody who can open the socket
// is the user. It must not be mounted where others can reach it. Behind a
// Listener, what descends from this process may only look.
func (a *API) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", a.status)
	mux.HandleFunc("GET /v1/version", a.version)
	mux.HandleFunc("GET /v1/servers/{name}", a.server)
	mux.HandleFunc("GET /v1/tools", a.tools)
	mux.HandleFunc("GET /v1/events", a.events)
	mux.HandleFunc("GET /v1/servers/{name}/logs", a.logs)
	mux.HandleFunc("POST /v1/servers/{name}/{op}", a.operate)
	mux.HandleFunc("POST /v1/servers/{name}/drill", a.drill)
	mux.HandleFunc("POST /v1/servers/{name}/login", a.login)
	mux.HandleFunc("POST /v1/servers/{name}/logout", a.logout)
	mux.HandleFunc("GET /v1/logins/{id}", a.loginEnd)
	mux.HandleFunc("POST /v1/logins/{id}/deliver", a.deliver)
	mux.HandleFunc("POST /v1/servers/{name}/ping", a.ping)
	mux.HandleFunc("POST /v1/call", a.call)
	mux.HandleFunc("POST /v1/answer", a.answered)
	mux.HandleFunc("POST /v1/reload", a.reload)
	mux.HandleFunc("POST /v1/did/{action}", a.told)
	mux.HandleFunc("GET /v1/pins", a.pins)
	mux.HandleFunc("POST /v1/pins/approve", a.approve)
	if a.opts.Page != nil {
		mux.HandleFunc("POST /v1/page/code", a.pageCode)
		mux.HandleFunc("POST /v1/page/revoke", a.pageRevoke)
	}
	if a.opts.Metrics != nil {
		mux.Handle("GET /v1/metrics", a.opts.Metrics)
	}
	return a.audited(a.refuseServers(mux))
}

func (a *API) status(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, a.Status()) }

// Status is the answer of GET /v1/status.
func (a *API) Status() Status {
	cfg := a.opts.Hub.Config()
	hide := a.hide()
	st := Status{
		Endpoint: a.opts.Endpoint, PID: os.Getpid(), Version: a.opts.Version, StartedAt: a.started, Run: a.opts.Journal.Run(), Ready: a.Ready(), StateDir: a.opts.StateDir,
		Config: a.opts.Config, Warnings: []string{}, Servers: []Server{},
		Problems: []Problem{}, Orphans: []Orphan{}, Exposed: []Exposure{},
	}
	if a.opts.Exposed != nil {
		st.Exposed = append(st.Exposed, a.opts.Exposed()...)
	}
	if r := a.broken.Load(); r != nil {
		st.ConfigError, st.ConfigRemedy, st.ConfigErrorSince = known(hide(r.fault.Error())), known(hide(r.fault.Remedy)), &r.since
	}
	for _, p := range a.opts.Hub.Problems() {
		p.Text, p.Remedy = hide(p.Text), hide(p.Remedy)
		st.Problems = append(st.Problems, Problem(p))
	}
	st.Problems = append(st.Problems, a.auditProblem()...)
	for _, l := range a.opts.Hub.Orphans() {
		st.Orphans = append(st.Orphans, Orphan(l))
	}
	for _, warning := range a.opts.Hub.Warnings() {
		st.Warnings = append(st.Warnings, warning.String())
	}
	st.Warnings = append(st.Warnings, a.NeedsRestart(cfg)...)
	for _, s := range a.opts.Hub.Status() {
		st.Servers = append(st.Servers, a.shape(s, cfg, hide))
	}
	return st
}

// server is one of Status.
func (a *API) server(w http.ResponseWriter, r *http.Request) {
	a.answerServer(w, "status", r.PathValue("name"))
}

func (a *API) version(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, Version{a.opts.Version, os.Getpid()})
}

func (a *API) tools(w http.ResponseWriter, _ *http.Request) {
	tools := []Tool{}
	for l := range a.opts.Hub.Catalog().Items(everline.Tools) {
		tools = append(tools, Tool{
			Name: l.Exposed, Server: l.Server, Tool: l.Item.Name, Hidden: l.Hidden,
			ReadOnly: l.Item.ReadOnly, Idempotent: l.Item.Idempotent, Definition: l.Item.Raw,
			Tokens: tokens(l),
		})
	}
	answer(w, http.StatusOK, tools)
}

// maxWait bounds how long ?wait may hold a request.
const maxWait = 10 * time.Minute

// operate runs restart, reconnect, enable or disable; with ?wait=30s the
// answer comes once the server has settled.
func (a *API) operate(w http.ResponseWriter, r *http.Request) {
	name, op := r.PathValue("name"), r.PathValue("op")
	old, ok := a.opts.Hub.Server(name)
	if !ok {
		a.fail(w, a.noServer(op, name))
		return
	}
	do := map[string]func(context.Context, string) error{
		"restart": a.opts.Hub.Reconnect, "reconnect": a.opts.Hub.Reconnect,
		"enable": a.opts.Hub.Enable, "disable": a.opts.Hub.Disable,
	}[op]
	if do == nil {
		a.fail(w, fault.New(fault.NotFound, op, "no such operation; known are restart, reconnect, enable, disable"))
		return
	}
	ctx := r.Context()
	if text := r.URL.Query().Get("wait"); text != "" {
		wait, err := time.ParseDuration(text)
		if err != nil || wait <= 0 || wait > maxWait {
			a.fail(w, fault.New(fault.Invalid, op, "wait must be a time of at most 10 minutes"))
			return
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	if err := do(ctx, name); err != nil {
		a.fail(w, err)
		return
	}
	a.Operated(r, name, op, "")
	if _, bounded := ctx.Deadline(); bounded {
		if _, err := a.opts.Hub.Await(ctx, name, seenGeneration(old, op)); err != nil {
			a.fail(w, err)
			return
		}
	}
	a.answerServer(w, op, name)
}

// seenGeneration is the generation that a waiter has seen enough of: enabling a
// server that serves already is done with the generation that serves.
func seenGeneration(was everline.Status, op string) uint64 {
	if op == "enable" && was.Generation > 0 && was.State == event.StateConnected {
		return was.Generation - 1
	}
	return was.Generation
}

func (a *API) answerServer(w http.ResponseWriter, op, name string) {
	st, ok := a.opts.Hub.Server(name)
	if !ok {
		a.fail(w, a.noServer(op, name))
		return
	}
	answer(w, http.StatusOK, a.shape(st, a.opts.Hub.Config(), a.hide()))
}

// shape is shapeServer with what the system knows about the process, and with
// what the configuration was warned of.
func (a *API) shape(st everline.Status, cfg *config.Config, hide func(string) string) Server {
	spec, _ := cfg.Server(st.Name)
	s := shapeServer(st, spec.Required, hide)
	for _, w := range cfg.Warnings {
		if w.Server == st.Name {
			s.ConfigWarnings = append(s.ConfigWarnings, w.String())
		}
	}
	if s.PID != nil {
		s.Memory = known(a.usage.Trees().Of(*s.PID).Resident)
	}
	return s
}

func (a *API) noServer(op, name string) *fault.Fault {
	var names []string
	for _, s := range a.opts.Hub.Config().Servers {
		names = append(names, s.Name)
	}
	f := fault.New(fault.NotFound, op, "no server is called "+name)
	f.Remedy = "everline status"
	if near := typed.Nearest(name, names); near != "" {
		f.Remedy = "did you mean " + near + "?"
	}
	f.Outcome = fault.NotSent
	return f
}

// maxCall bounds the body of a call in bytes.
const maxCall = 64 << 20

func (a *API) call(w http.ResponseWriter, r *http.Request) {
	var req CallRequest
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxCall))
	if err != nil {
		a.fail(w, &fault.Fault{Kind: fault.TooLarge, Op: "call", Outcome: fault.NotSent, Err: err})
		return
	}
	if err := json.Unmarshal(body, &req); err != nil || req.Tool == "" {
		a.fail(w, &fault.Fault{Kind: fault.Invalid, Op: "call", Outcome: fault.NotSent, Err: errors.New(`the body must be {"server","tool","arguments"}`)})
		return
	}
	if len(req.Arguments) == 0 {
		req.Arguments = json.RawMessage("{}")
	}
	// The arguments go on as they came: json.Marshal rewrites raw bytes.
	name, _ := json.Marshal(req.Tool) // any string can be encoded
	params := slices.Concat([]byte(`{"name":`), name, []byte(`,"arguments":`), req.Arguments, []byte{'}'})
	if req.Server != "" {
		if _, ok := a.opts.Hub.Server(req.Server); !ok {
			a.fail(w, a.noServer("call", req.Server))
			return
		}
	}
	if byWeb(r) {
		a.Operated(r, req.Server, "call", req.Tool)
	}
	ctx := r.Context()
	if req.TimeoutMS > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, ofMillis(req.TimeoutMS))
		defer cancel()
	}
	if !req.Probe {
		a.asking(ctx, w, r, req, params)
		return
	}
	call := &everline.Call{Method: mcp.ToolsCall, Server: req.Server, Name: req.Tool, Params: params, By: callerBy(r)}
	witness, f := a.witness(r, req)
	if f != nil {
		a.fail(w, f)
		return
	}
	defer witness.Over(ctx)
	call.Observe = a.observer(witness, params)
	result, err := a.opts.Hub.Call(door.Probing(ctx), call)
	if err != nil {
		a.fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(result) // the error is the client's going away
}

// answer writes v, all of which can be encoded, as JSON.
func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the error is the client's going away
}

func (a *API) fail(w http.ResponseWriter, err error) {
	f := fault.From("admin", err)
	if d, ok := w.(*doing); ok {
		d.fault = f
	}
	answer(w, httpStatus(f.Kind), shapeError(f, a.hide()))
}

func httpStatus(k fault.Kind) int {
	switch k {
	case fault.NotFound:
		return http.StatusNotFound
	case fault.Forbidden:
		return http.StatusForbidden
	case fault.Invalid:
		return http.StatusBadRequest
	case fault.TooLarge:
		return http.StatusRequestEntityTooLarge
	case fault.Disabled, fault.Conflict:
		return http.StatusConflict
	case fault.Overloaded, fault.RateLimited:
		return http.StatusTooManyRequests
	case fault.Unavailable, fault.Closed:
		return http.StatusServiceUnavailable
	case fault.Deadline, fault.Canceled:
		return http.StatusGatewayTimeout
	case fault.Internal:
		return http.StatusInternalServerError
	default:
		return http.StatusBadGateway
	}
}

// Operated keeps in the journal that a request has changed something.
func (a *API) Operated(r *http.Request, server, action, detail string) {
	by := "cli"
	if byWeb(r) {
		by = "web"
	}
	a.opts.Journal.Record(event.Operated{Head: event.Head{Time: time.Now(), Server: server}, By: by, Action: action, Detail: detail})
}
