package gateway

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
	"github.com/everline/everline/internal/pipe"
	"github.com/everline/everline/internal/wire"
)

// serve answers one request. ctx ends when the request is to be given up, and
// for no other reason: the transport decides whether that includes the loss of
// the client.
func (g *Gateway) serve(ctx context.Context, x *exchange) (a message.Answer) {
	defer g.rescue(x, &a)
	switch x.Method {
	case mcp.ToolsList:
		return g.list(ctx, x, everline.Tools)
	case mcp.PromptsList:
		return g.list(ctx, x, everline.Prompts)
	case mcp.ResourcesList:
		return g.list(ctx, x, everline.Resources)
	case mcp.ResourcesTemplatesList:
		return g.list(ctx, x, everline.Templates)
	case mcp.ToolsCall, mcp.PromptsGet, mcp.ResourcesRead:
		name, ok := x.ItemName()
		if !ok {
			return *x.Refusal(mcp.CodeInvalidParams, "Invalid params: the name or uri is missing", nil)
		}
		out := &everline.Call{Method: x.Method, Name: name, Params: x.Params}
		if x.known() {
			out.Target = &x.target
		}
		return g.call(ctx, x, out)
	case mcp.CompletionComplete:
		return g.complete(ctx, x)
	case mcp.EverlineResult:
		return g.result(ctx, x)
	case mcp.TasksGet, mcp.TasksResult, mcp.TasksList, mcp.TasksUpdate, mcp.TasksCancel:
		return g.taskRequest(ctx, x)
	case mcp.ServerDiscover:
		if x.Modern {
			return g.discover(x.Message)
		}
	}
	if !x.Modern {
		return g.serveLegacy(ctx, x)
	}
	return g.extend(ctx, x)
}

// families are the first parts of the names of all methods that some revision
// defines; what is not served of them is served by nobody.
var families = []string{
	"completion", "elicitation", "everline", "initialize", "logging", "notifications", "ping", "prompts", "resources",
	"roots", "sampling", "server", "subscriptions", "tasks", "tools",
}

// extend hands a request that no revision defines to the server that it is for:
// the one that its _meta names, or the only one.
func (g *Gateway) extend(ctx context.Context, x *exchange) message.Answer {
	family, _, _ := strings.Cut(x.Method, "/")
	server, named := wire.Text(wire.Get(x.Params, "_meta", mcp.MetaServer))
	if !named {
		server, named = g.backend.Catalog().Server("") // by form every name is the only server's
	}
	if !named || slices.Contains(families, family) {
		return x.NoMethod()
	}
	return g.call(ctx, x, &everline.Call{Method: x.Method, Server: server, Params: x.Params})
}

// call answers with what comes back from the server that a request is for. It
// keeps the request in flight meanwhile, and the outcome for a client that loses
// its connection, where the server wants that.
func (g *Gateway) call(parent context.Context, x *exchange, out *everline.Call) message.Answer {
	if x.BadLevel() {
		return *x.Refusal(mcp.CodeInvalidParams, "Invalid log level", nil)
	}
	k, first, bad := g.results.promise(x)
	switch {
	case bad != nil:
		return *bad
	case !first:
		return g.await(parent, x, k)
	case k != nil && x.comesBack():
		parent = context.WithoutCancel(parent)
	}
	defer g.results.lost(k)
	ctx, end, err := g.inflight.track(parent, x)
	if err != nil {
		f := fault.From(x.Method, err)
		g.results.fulfil(k, nil, f)
		return x.Failure(f)
	}
	defer end()
	serve := g.callLegacy
	if x.Modern {
		serve = g.callModern
	}
	result, err := serve(ctx, x, out)
	g.results.fulfil(k, result, fault.From(x.Method, err))
	if err != nil {
		return failed(ctx, x.Message, err)
	}
	return x.Success(result)
}

// failed answers a request that ended in an error. Why our own context ended
// decides where the backend can only say that it did.
func failed(ctx context.Context, m *message.Message, err error) message.Answer {
	f := fault.From(m.Method, err)
	if f.Kind != fault.Canceled {
		return m.Failure(f)
	}
	c := *f
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errClosing):
		return m.CutOff(f)
	case errors.Is(cause, errCanceled):
		a := m.Failure(&c)
		a.Silent = true
		return a
	case errors.Is(cause, pipe.ErrLeft):
		c.Err = pipe.ErrLeft
	}
	return m.Failure(&c)
}

// complete routes completion/complete by what it refers to.
func (g *Gateway) complete(ctx context.Context, x *exchange) message.Answer {
	var kind, name string
	for key, val := range wire.Members(x.Fields.Ref) {
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
		return *x.Refusal(mcp.CodeInvalidParams, "Invalid params: ref must name a prompt or a resource", nil)
	}
	return g.call(ctx, x, &everline.Call{Method: x.Method, Name: name, Params: x.Params})
}
