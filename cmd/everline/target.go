package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/typed"
)

// statusWith is the status of all, in which the named server must be; "" names
// none.
func (a *app) statusWith(ctx context.Context, name string) (admin.Status, error) {
	st, err := a.client().Status(ctx)
	if err == nil && name != "" && len(only(st.Servers, name)) == 0 {
		err = noServer(name, st.Servers)
	}
	return st, err
}

// only is the named server, or all for "".
func only(all []admin.Server, name string) []admin.Server {
	for i, s := range all {
		if s.Name == name {
			return all[i : i+1]
		}
	}
	if name != "" {
		return nil
	}
	return all
}

// about leaves out what is about other servers than the named one; "" leaves
// out nothing. The servers stay, to be counted.
func about(st admin.Status, name string) admin.Status {
	if name == "" {
		return st
	}
	orphans, problems := st.Orphans, st.Problems
	st.Warnings, st.Orphans, st.Problems, st.Exposed = []string{}, []admin.Orphan{}, []admin.Problem{}, []admin.Exposure{}
	for _, p := range problems {
		if p.Server == name {
			st.Problems = append(st.Problems, p)
		}
	}
	for _, s := range only(st.Servers, name) { // one at most
		st.Warnings = append(st.Warnings, s.ConfigWarnings...)
	}
	for _, l := range orphans {
		if l.Server == name {
			st.Orphans = append(st.Orphans, l)
		}
	}
	return st
}

func noServer(name string, servers []admin.Server) error {
	var names []string
	for _, s := range servers {
		names = append(names, s.Name)
	}
	f := fault.New(fault.NotFound, "find the server", "no server is called "+shownName(name))
	f.Remedy = "everline status"
	if near := typed.Nearest(name, names); near != "" {
		f.Remedy = "did you mean " + near + "?"
	}
	return f
}

// firstWait is how long a call waits for the first catalog of its server.
const firstWait = 30 * time.Second

func resolveWithin(ctx context.Context, c *admin.Client, target string, timeout time.Duration) (admin.CallRequest, error) {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	return resolve(ctx, c, target)
}

// resolve finds the tool that was meant, and waits where its server is still
// coming up and has never said what it offers.
func resolve(ctx context.Context, c *admin.Client, target string) (admin.CallRequest, error) {
	tick := time.NewTicker(statusPoll)
	defer tick.Stop()
	late := time.NewTimer(firstWait)
	defer late.Stop()
	var away *admin.Server
	for {
		req, now, err := lookUp(ctx, c, target)
		if err != nil && ctx.Err() != nil && away != nil {
			return req, lateFault(ctx, *away)
		}
		if err != nil || now == nil {
			return req, err
		}
		away = now
		if away.State != event.StateConnecting && away.State != event.StateReconnecting {
			return req, awayFault(*away)
		}
		select {
		case <-tick.C:
		case <-late.C:
			return req, awayFault(*away)
		case <-ctx.Done():
			return req, lateFault(ctx, *away)
		}
	}
}

// lateFault says that nobody waits any longer for a server that is away.
func lateFault(ctx context.Context, away admin.Server) *fault.Fault {
	f := awayFault(away)
	f.Kind = fault.KindOf(ctx.Err())
	return f
}

// serverOf is the server that a target names, the one with the longest name
// that fits, since names may have dots. It has no name if none does.
func serverOf(target string, servers []admin.Server) (server admin.Server) {
	for _, s := range servers {
		if strings.HasPrefix(target, s.Name+".") && len(s.Name) > len(server.Name) {
			server = s
		}
	}
	return server
}

// lookUp reads the target as server.tool or as an exposed name. away is the server
// where nothing is published of it that could have the tool.
func lookUp(ctx context.Context, c *admin.Client, target string) (req admin.CallRequest, away *admin.Server, err error) {
	tools, err := c.Tools(ctx)
	if err != nil {
		return req, nil, err
	}
	st, err := c.Status(ctx)
	if err != nil {
		return req, nil, err
	}
	server := serverOf(target, st.Servers)
	own := strings.TrimPrefix(target, server.Name+".")
	var names []string
	for _, t := range tools {
		switch {
		case server.Name == "" && t.Name == target:
			return admin.CallRequest{Tool: target}, nil, nil
		case server.Name != "" && t.Server == server.Name && t.Tool == own:
			return admin.CallRequest{Server: t.Server, Tool: own}, nil, nil
		}
		names = append(names, t.Server+"."+t.Tool)
	}
	if server.Name != "" && (server.CatalogAt == nil || server.State != event.StateConnected && server.State != event.StateIdle) {
		return req, &server, nil
	}
	return req, nil, noTool(target, server.Name, st.Servers, names)
}

// awayFault says why a server that has nothing published cannot be called.
func awayFault(s admin.Server) *fault.Fault {
	f := &fault.Fault{
		Kind: fault.Unavailable, Op: "call", Server: s.Name, Outcome: fault.NotSent, Stderr: s.Stderr,
		Remedy: "everline status " + typed.Argument(s.Name),
	}
	text := "the server is " + string(s.State)
	if s.Cause != nil {
		text += ": " + *s.Cause
	}
	f.Err = errors.New(text)
	if s.Remedy != nil {
		f.Remedy = *s.Remedy
	}
	if s.NextAttempt != nil {
		f.RetryAfter = max(time.Until(*s.NextAttempt), 0)
	}
	switch {
	case s.State.Off():
		f.Kind = fault.Disabled
	case s.State == event.StateAuthRequired:
		f.Kind = fault.Unauthorized
	}
	return f
}

func noTool(target, server string, servers []admin.Server, names []string) error {
	if prefix, _, dotted := strings.Cut(target, "."); dotted && server == "" {
		return noServer(prefix, servers)
	}
	f := fault.New(fault.NotFound, "call", "no tool is called "+target)
	f.Remedy = "everline tools"
	if near := typed.Nearest(target, names); near != "" {
		f.Remedy = "did you mean " + near + "?"
	}
	return f
}

// isTool reports whether a request calls this tool.
func isTool(t admin.Tool, req admin.CallRequest) bool {
	return t.Server == req.Server && t.Tool == req.Tool || req.Server == "" && t.Name == req.Tool
}

// toolNamed finds a tool as call does.
func (a *app) toolNamed(ctx context.Context, target string) (admin.Tool, error) {
	c := a.client()
	req, err := resolve(ctx, c, target)
	if err != nil {
		return admin.Tool{}, err
	}
	tools, err := c.Tools(ctx)
	if err != nil {
		return admin.Tool{}, err
	}
	if i := slices.IndexFunc(tools, func(t admin.Tool) bool { return isTool(t, req) }); i >= 0 {
		return tools[i], nil
	}
	return admin.Tool{}, noTool(target, req.Server, nil, nil) // it has gone just now
}

// A definition is what people see of a tool's.
type definition struct {
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Input       json.RawMessage `json:"inputSchema"`
	Output      json.RawMessage `json:"outputSchema"`
	Annotations struct {
		Title       string `json:"title"`
		ReadOnly    *bool  `json:"readOnlyHint"`
		Destructive *bool  `json:"destructiveHint"`
		Idempotent  *bool  `json:"idempotentHint"`
		OpenWorld   *bool  `json:"openWorldHint"`
	} `json:"annotations"`
}

// definitionOf reads a definition. What is strange in it is left out.
func definitionOf(t admin.Tool) definition {
	var d definition
	_ = json.Unmarshal(t.Definition, &d)
	return d
}
