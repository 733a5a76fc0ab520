package gateway

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/message"
	"github.com/everline/everline/internal/wire"
)

// serve answers one request. ctx ends when the request is to be given up, and
// for no other reason: the transport decides whether that includes the loss of
// the client.
func (svc *service) serve(ctx context.Context, x *exchange) (a message.Answer) {
	if svc.opts.Recorder != nil {
		var r recording
		ctx, r = svc.recording(ctx, x)
		defer svc.ended(r, x, &a)
		if svc.durations != nil {
			defer svc.measured(x, &a)
		}
	}
	defer svc.count(x, &a)
	defer svc.rescue(x, &a)
	if x.Method == mcp.ToolsCall {
		svc.inOwnEra(x)
	}
	leave, bad := svc.admit(x)
	if bad != nil {
		return *bad
	}
	if leave != nil {
		defer leave()
	}
	switch x.Method {
	case mcp.ToolsList:
		return svc.list(ctx, x, everline.Tools)
	case mcp.PromptsList:
		return svc.list(ctx, x, everline.Prompts)
	case mcp.ResourcesList:
		return svc.list(ctx, x, everline.Resources)
	case mcp.ResourcesTemplatesList:
		return svc.list(ctx, x, everline.Templates)
	case mcp.ToolsCall, mcp.PromptsGet, mcp.ResourcesRead:
		name, ok := x.ItemName()
		if !ok {
			return *x.Refusal(mcp.CodeInvalidParams, "Invalid params: the name or uri is missing", nil)
		}
		out := &everline.Call{Method: x.Method, Name: name, Params: x.Params}
		if x.known() {
			out.Target = &x.target
		}
		if x.Modern && x.target.Tasks.Always() && !x.DeclaresTasks() {
			return *x.lacksTasks()
		}
		return svc.call(ctx, x, out)
	case mcp.CompletionComplete:
		return svc.complete(ctx, x)
	case mcp.EverlineResult:
		return svc.result(ctx, x)
	case mcp.TasksGet, mcp.TasksResult, mcp.TasksList, mcp.TasksUpdate, mcp.TasksCancel:
		return svc.taskRequest(ctx, x)
	case mcp.ServerDiscover:
		if x.Modern {
			return svc.discover(x.Message)
		}
	}
	if !x.Modern {
		return svc.serveLegacy(ctx, x)
	}
	return svc.extend(ctx, x)
}

// count counts a request for which no server was asked.
func (svc *service) count(x *exchange, a *message.Answer) {
	if !x.asked.Load() {
		code, _ := a.Error()
		svc.opts.Meter.Own(x.Method, code != 0)
	}
}

// malformed counts a message that was refused before it could be meant for a server,
// and returns why it was; nil was not.
func (svc *service) malformed(bad *message.Answer) *message.Answer {
	if bad == nil {
		return nil
	}
	if code, _ := bad.Error(); code == mcp.CodeUnsupportedVersion {
		svc.opts.Meter.Version.Add(1)
	} else {
		svc.opts.Meter.Parse.Add(1)
	}
	return bad
}

// took notes what everline itself took of a call that was answered.
func (svc *service) took(x *exchange, answer *everline.Answer) {
	over := &svc.opts.Meter.OverHTTP
	if x.request == nil {
		over = &svc.opts.Meter.OverPipe
	}
	over.Observe(max(time.Since(x.began)-answer.Spent, 0))
}

// list answers one of the four list methods: the array was encoded once, when
// it was published, and the envelope once and for all. Everything is on one
// page, so there is no cursor that we ever gave out.
func (svc *service) list(ctx context.Context, x *exchange, k everline.Kind) message.Answer {
	if c := x.Fields.Cursor; c != nil && !wire.IsNull(c) && string(c) != `""` {
		return *x.Refusal(mcp.CodeInvalidParams, "Invalid cursor: lists have one page", nil)
	}
	svc.backend.WaitFirst(ctx)
	items := svc.items(x, k)
	env := svc.envs[k].legacy
	if x.Modern {
		env = svc.envs[k].modern
	}
	head := make([]byte, 0, len(`{"jsonrpc":"2.0","id":,"result":`)+len(x.ID)+len(env))
	head = append(append(head, `{"jsonrpc":"2.0","id":`...), x.ID...)
	head = append(append(head, `,"result":`...), env...)
	return message.Answer{Head: head, Body: items, Tail: endOfList}
}

// items are those that a client is shown.
func (svc *service) items(x *exchange, k everline.Kind) []byte {
	table := svc.catalogOf(x)
	if k == everline.Tools && !x.Modern && x.sess != nil && x.sess.Protocol() == mcp.LatestLegacy {
		return table.TaskArray()
	}
	return table.Array(k)
}

// catalogOf is what is published to the client of a request.
func (svc *service) catalogOf(x *exchange) *everline.Catalog {
	if x.Modern || x.sess == nil {
		return svc.backend.Catalog()
	}
	return svc.backend.CatalogFor(&x.sess.Isolated)
}

// inOwnEra looks a tool up anew where its client, which is known by now, sees other lists
// than most.
func (svc *service) inOwnEra(x *exchange) {
	if own := svc.catalogOf(x); own != svc.backend.Catalog() {
		name, _ := x.ItemName()
		x.target, _ = own.Tool(name)
	}
}

// complete routes completion/complete by what it refers to.
func (svc *service) complete(ctx context.Context, x *exchange) message.Answer {
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
	return svc.call(ctx, x, &everline.Call{Method: x.Method, Name: name, Params: x.Params})
}

// families are the first parts of the names of all methods that some revision
// defines; what is not served of them is served by nobody.
var families = []string{
	"completion", "elicitation", "everline", "initialize", "logging", "notifications", "ping", "prompts", "resources",
	"roots", "sampling", "server", "subscriptions", "tasks", "tools",
}

// extend hands a request that no revision defines to the server that it is for:
// the one that its _meta names, or the only one.
func (svc *service) extend(ctx context.Context, x *exchange) message.Answer {
	family, rest, _ := strings.Cut(x.Method, "/")
	server, named := wire.Text(wire.Get(x.Params, "_meta", mcp.MetaServer))
	if !named {
		server, named = svc.backend.Catalog().Server("") // by form every name is the only server's
	}
	ours := slices.Contains(families, family) && (family != "resources" || rest != "directory/read") // that is of the extension io.modelcontextprotocol/skills
	if !named || ours || !svc.backend.May().Server(server) {
		return x.NoMethod()
	}
	return svc.call(ctx, x, &everline.Call{Method: x.Method, Server: server, Params: x.Params})
}
