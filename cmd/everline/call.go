package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
)

func newCall(a *app) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "call server.tool [key=value... | JSON | -]",
		Short: "Call one tool",
		Long: "Call one tool of the running everline and print its result.\n\n" +
			"The tool is server.tool, or the name that clients see. Arguments are one JSON object,\n" +
			"key=value pairs (a value that is JSON is taken as such), or - for a JSON object on stdin.\n" +
			"A result that says isError exits with 1.",
		Args: cobra.MinimumNArgs(1),
		RunE: runE(func(cmd *cobra.Command, args []string) error {
			arguments, err := a.arguments(args[1:])
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, timeout)
				defer cancel()
			}
			return untilInterrupt(ctx, func(ctx context.Context) error { return a.call(ctx, args[0], arguments) })
		}),
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "give up after this time; 0: the server's callTimeout")
	return cmd
}

// arguments reads the tool's arguments from the command line or stdin.
func (a *app) arguments(args []string) (json.RawMessage, error) {
	const remedy = `everline call server.tool '{"key": "value"}'`
	text := []byte("{}")
	switch {
	case len(args) == 1 && args[0] == "-":
		var err error
		if text, err = io.ReadAll(a.in); err != nil {
			return nil, usage(remedy, "stdin cannot be read: %w", err)
		}
	case len(args) == 1 && strings.HasPrefix(strings.TrimSpace(args[0]), "{"):
		text = []byte(args[0])
	case len(args) > 0:
		return pairs(args)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil || object == nil {
		return nil, usage(remedy, "the arguments are not a JSON object: %s", jsonProblem(err))
	}
	return text, nil
}

func jsonProblem(err error) string {
	if err == nil {
		return "null"
	}
	return err.Error()
}

// pairs makes an object of key=value words, in their order.
func pairs(words []string) (json.RawMessage, error) {
	var b bytes.Buffer
	for i, word := range words {
		key, value, ok := strings.Cut(word, "=")
		if !ok || key == "" {
			return nil, usage("everline call server.tool key=value", "%q is neither key=value nor a JSON object", word)
		}
		b.WriteByte("{,"[min(i, 1)])
		name, _ := json.Marshal(key)
		b.Write(name)
		b.WriteByte(':')
		if json.Valid([]byte(value)) {
			b.WriteString(value)
			continue
		}
		text, _ := json.Marshal(value)
		b.Write(text)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func (a *app) call(ctx context.Context, target string, arguments json.RawMessage) error {
	c := a.client()
	req, err := resolve(ctx, c, target)
	if err != nil {
		return err
	}
	req.Arguments = arguments
	result, err := c.Call(ctx, req)
	if err != nil {
		return err
	}
	return a.printResult(result)
}

// firstWait is how long a call waits for the first catalog of its server.
const firstWait = 30 * time.Second

// resolve finds the tool that was meant, and waits where its server is still
// coming up and has never said what it offers.
func resolve(ctx context.Context, c *admin.Client, target string) (admin.CallRequest, error) {
	tick := time.NewTicker(statusPoll)
	defer tick.Stop()
	late := time.NewTimer(firstWait)
	defer late.Stop()
	for {
		req, away, err := lookUp(ctx, c, target)
		if err != nil || away == nil {
			return req, err
		}
		if away.State != "connecting" && away.State != "reconnecting" {
			return req, awayFault(*away)
		}
		select {
		case <-tick.C:
		case <-late.C:
			return req, awayFault(*away)
		case <-ctx.Done():
			return req, ctx.Err()
		}
	}
}

// lookUp reads the target as server.tool, with the longest server name that
// fits, since names may have dots, or as an exposed name. away is the server
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
	var server admin.Server
	for _, s := range st.Servers {
		if strings.HasPrefix(target, s.Name+".") && len(s.Name) > len(server.Name) {
			server = s
		}
	}
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
	if server.Name != "" && (server.CatalogAt == nil || server.State != "connected" && server.State != "idle") {
		return req, &server, nil
	}
	return req, nil, noTool(target, server.Name, st.Servers, names)
}

// awayFault says why a server that has nothing published cannot be called.
func awayFault(s admin.Server) error {
	f := &fault.Fault{
		Kind: fault.Unavailable, Op: "call", Server: s.Name, Outcome: fault.NotSent, Stderr: s.Stderr,
		Remedy: "everline status " + s.Name,
	}
	text := "the server is " + s.State
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
	switch s.State {
	case "disabled", "disabling":
		f.Kind = fault.Disabled
	case "auth_required":
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
	if near := config.Nearest(target, names); near != "" {
		f.Remedy = "did you mean " + near + "?"
	}
	return f
}

// A result is what people see of a tool's result.
type result struct {
	IsError bool `json:"isError"`
	Content []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		MimeType string `json:"mimeType"`
		Data     string `json:"data"`
		URI      string `json:"uri"`
	} `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
}

// printResult prints a tool's result: raw for machines, its texts for people.
func (a *app) printResult(raw json.RawMessage) error {
	var r result
	err := json.Unmarshal(raw, &r)
	if a.forMachines() || err != nil { // valid MCP or not, it is what the server said
		fmt.Fprintf(a.out, "%s\n", raw)
	} else {
		r.print(a.out)
	}
	if r.IsError {
		return exit(exitFailed)
	}
	return nil
}

func (r result) print(w io.Writer) {
	for _, c := range r.Content {
		switch {
		case c.Type == "text":
			fmt.Fprintln(w, c.Text)
		case c.URI != "":
			fmt.Fprintf(w, "[%s %s]\n", c.Type, printable(c.URI))
		default:
			fmt.Fprintf(w, "[%s %s, %d bytes of base64]\n", c.Type, printable(c.MimeType), len(c.Data))
		}
	}
	if len(r.Content) == 0 && len(r.Structured) > 0 {
		fmt.Fprintf(w, "%s\n", r.Structured)
	}
}
