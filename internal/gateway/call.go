package gateway

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// serve answers one request. ctx ends when the request is to be given up, and
// for no other reason: the transport decides whether that includes the loss of
// the client.
func (g *Gateway) serve(ctx context.Context, rq *request) (a answer) {
	defer g.rescue(rq, &a)
	switch rq.msg.Method {
	case mcp.ToolsList:
		return g.list(ctx, rq, everline.Tools)
	case mcp.PromptsList:
		return g.list(ctx, rq, everline.Prompts)
	case mcp.ResourcesList:
		return g.list(ctx, rq, everline.Resources)
	case mcp.ResourcesTemplatesList:
		return g.list(ctx, rq, everline.Templates)
	case mcp.ToolsCall, mcp.PromptsGet, mcp.ResourcesRead:
		name, ok := rq.target()
		if !ok {
			return *rq.errorAnswer(mcp.CodeInvalidParams, "Invalid params: the name or uri is missing", nil)
		}
		return g.call(ctx, rq, name)
	case mcp.CompletionComplete:
		return g.complete(ctx, rq)
	case mcp.EverlineResult:
		return g.result(ctx, rq)
	case mcp.TasksGet, mcp.TasksResult, mcp.TasksList, mcp.TasksUpdate, mcp.TasksCancel:
		return g.taskRequest(ctx, rq)
	case mcp.ServerDiscover:
		if rq.modern {
			return g.discover(rq)
		}
	}
	if !rq.modern {
		return g.serveLegacy(ctx, rq)
	}
	return g.extend(ctx, rq)
}

// families are the first parts of the names of all methods that some revision
// defines; what is not served of them is served by nobody.
var families = []string{
	"completion", "elicitation", "everline", "initialize", "logging", "notifications", "ping", "prompts", "resources",
	"roots", "sampling", "server", "subscriptions", "tasks", "tools",
}

// extend hands a request that no revision defines to the server that it is for:
// the one that its _meta names, or the only one.
func (g *Gateway) extend(ctx context.Context, rq *request) answer {
	family, _, _ := strings.Cut(rq.msg.Method, "/")
	server, named := wire.Text(wire.Get(rq.msg.Params, "_meta", mcp.MetaServer))
	if !named {
		server, named = g.backend.Catalog().Server("") // by form every name is the only server's
	}
	if !named || slices.Contains(families, family) {
		return rq.noMethod()
	}
	if !rq.introduce() {
		return *rq.errorAnswer(mcp.CodeInvalidParams, "Invalid log level", nil)
	}
	c := &everline.Call{Method: rq.msg.Method, Server: server, Params: rq.msg.Params, LogLevel: mcp.Levels[rq.level]}
	if rq.fields.meta.progressToken != nil && rq.emit != nil {
		c.Progress = rq.progress
	}
	a, _, f := g.send(ctx, rq, c)
	if f != nil && f.Kind == fault.NotFound {
		return *rq.errorAnswer(mcp.CodeInvalidParams, "Invalid params: no server is called "+server, nil)
	}
	return a
}

func (rq *request) noMethod() answer {
	return *rq.errorAnswer(mcp.CodeMethodNotFound, "Method not found: "+rq.msg.Method, nil)
}

// call hands a request to the server that owns name and answers with what came
// back.
func (g *Gateway) call(parent context.Context, rq *request, name string) answer {
	c := &everline.Call{Method: rq.msg.Method, Name: name, Params: rq.msg.Params}
	if !rq.introduce() {
		return *rq.errorAnswer(mcp.CodeInvalidParams, "Invalid log level", nil)
	}
	c.LogLevel = mcp.Levels[rq.level]
	if rq.fields.meta.progressToken != nil && rq.emit != nil {
		c.Progress = rq.progress
	}
	if keep := g.keepFor(rq, name); keep > 0 {
		return g.callKept(parent, rq, c, keep)
	}
	a, _, _ := g.send(parent, rq, c)
	return a
}

// introduce fills in what servers are told of the client, and what it may hear
// of them. It is false if the client wants log messages of no known level.
func (rq *request) introduce() bool {
	switch {
	case !rq.modern && rq.sess != nil:
		rq.sess.introduce(rq)
		return true
	case rq.sess != nil:
		rq.client = rq.sess.client
	case rq.client == 0: // its connection does not tell
		rq.client = everline.NewClientID()
	}
	rq.serves = readServed(rq.fields.meta.capabilities)
	if rq.sess != nil {
		rq.sess.offer(rq.serves)
	}
	if raw := rq.fields.meta.logLevel; rq.modern && raw != nil {
		rq.level = mcp.LevelRank(raw)
		return rq.level != 0
	}
	return true
}

// send sends a call and makes the answer of what came back, which it returns
// beside it: a result or a fault.
func (g *Gateway) send(parent context.Context, rq *request, c *everline.Call) (answer, []byte, *fault.Fault) {
	ctx, end, err := g.depart(parent, rq)
	if err != nil {
		f := fault.From(rq.msg.Method, err)
		return rq.failure(f), nil, f
	}
	defer end()
	result, err := g.perform(ctx, rq, c)
	if err != nil {
		return rq.failed(ctx, err), nil, fault.From(rq.msg.Method, err)
	}
	return rq.result(result), result, nil
}

// depart registers a request that waits for a server, unless its transport has
// done so.
func (g *Gateway) depart(parent context.Context, rq *request) (ctx context.Context, end func(), err error) {
	if rq.flying {
		return parent, func() {}, nil
	}
	ctx, fl, err := g.flights.begin(parent, rq)
	return ctx, func() { g.flights.end(fl) }, err
}

// failed answers a call that ended in an error. Why our own context ended
// decides where the backend can only say that it did.
func (rq *request) failed(ctx context.Context, err error) answer {
	f := fault.From(rq.msg.Method, err)
	if f.Kind != fault.Canceled {
		return rq.failure(f)
	}
	c := *f
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errClosing):
		c.Kind = fault.Closed
		return rq.failureAs(&c, verdicts[fault.Closed])
	case errors.Is(cause, errCanceled):
		a := rq.failure(&c)
		a.silent = true
		return a
	case errors.Is(cause, errLeft):
		c.Err = errLeft
	}
	return rq.failure(&c)
}

// progress forwards one progress notification. It carries the client's own
// token, whatever is in params: two clients may have chosen the same one.
func (rq *request) progress(params []byte) {
	params = wire.Set(params, rq.fields.meta.progressToken, "progressToken")
	emit := rq.emit
	if rq.late.Load() && rq.sess != nil {
		if emit = rq.sess.logSink(); emit == nil {
			return
		}
	}
	emit(wire.AppendNotification(nil, mcp.NotifyProgress, params))
}

// complete routes completion/complete by what it refers to.
func (g *Gateway) complete(ctx context.Context, rq *request) answer {
	var kind, name string
	for key, val := range wire.Members(rq.fields.ref) {
		switch key {
		case "type":
			kind, _ = wire.Text(val)
		case "name":
			if kind != "ref/resource" {
				name, _ = wire.Text(val)
			}
		case "uri":
			if kind != "ref/prompt" {
				name, _ = wire.Text(val)
			}
		}
	}
	if name == "" || kind != "ref/prompt" && kind != "ref/resource" {
		return *rq.errorAnswer(mcp.CodeInvalidParams, "Invalid params: ref must name a prompt or a resource", nil)
	}
	return g.call(ctx, rq, name)
}

// cancelNamed cancels the request that a notifications/cancelled names, within
// the session that it came in.
func (rq *request) cancelNamed() {
	if rq.sess != nil && rq.fields.requestID != nil {
		rq.sess.cancel(rq.fields.requestID)
	}
}
