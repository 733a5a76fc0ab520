package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/daemon"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/prompt"
	"github.com/everline/everline/internal/toolargs"
	"github.com/everline/everline/internal/visible"
)

func newCall(a *app) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:               "call server.tool [key=value... | key:=JSON... | JSON | -]",
		ValidArgsFunction: one(a.completeTools),
		Short:             "Call one tool",
		Long: "Call one tool of the running everline and print its result.\n\n" +
			"The tool is server.tool, or the name that clients see. Arguments are one JSON object, key=value pairs, or -\n" +
			"for a JSON object on stdin. A value is what the tool's schema says, see everline tools show: query=5 is a\n" +
			"string where it says string. A key that is given again adds to a list, and key:=JSON is taken as it is.\n" +
			"A tool that asks for input during the call has its form filled in on the terminal.\n" +
			"A result that says isError exits with 1. A call that fails says whether it may have been executed.",
		Args: cobra.MinimumNArgs(1),
		RunE: runE(func(cmd *cobra.Command, args []string) error {
			arguments, err := a.typedArguments(args[1:])
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), daemon.StopSignals...)
			defer stop()
			return a.call(ctx, args[0], arguments, timeout)
		}),
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "give up after this time; 0: the server's callTimeout")
	return cmd
}

// typedArguments reads the command line, or stdin for "-".
func (a *app) typedArguments(words []string) (args toolargs.Args, err error) {
	switch {
	case len(words) == 1 && words[0] == "-":
		text, failed := io.ReadAll(a.stdin)
		if failed != nil {
			return args, usage("everline call server.tool key=value", "stdin cannot be read: %w", failed)
		}
		args, err = toolargs.Object(text)
	case len(words) == 1 && strings.HasPrefix(strings.TrimSpace(words[0]), "{"):
		args, err = toolargs.Object([]byte(words[0]))
	case len(words) > 0:
		args, err = toolargs.Words(words)
	default:
		args, err = toolargs.Object([]byte("{}"))
	}
	return args, asUsage(err)
}

// encodeFor makes the JSON object that the tool of a call gets.
func encodeFor(ctx context.Context, c *admin.Client, req admin.CallRequest, target string, args toolargs.Args) (json.RawMessage, error) {
	var input json.RawMessage // nil, of a tool that has gone just now, allows anything
	if args.NeedsSchema() {
		tools, err := c.Tools(ctx)
		if err != nil {
			return nil, err
		}
		for _, t := range tools {
			if isTool(t, req) {
				input = definitionOf(t).Input
			}
		}
	}
	object, err := args.Encode(input, "everline tools show "+target)
	return object, asUsage(err)
}

// answerGrace is how much longer than the call the answer may take that says
// what became of it.
const answerGrace = 5 * time.Second

// call calls a tool, and gives up after the timeout if that is not 0.
func (a *app) call(ctx context.Context, target string, args toolargs.Args, timeout time.Duration) error {
	return a.callAsking(ctx, target, args, timeout, a.newAsker())
}

// callAsking is call; what the server asks for goes to the user of q.
func (a *app) callAsking(ctx context.Context, target string, args toolargs.Args, timeout time.Duration, q *prompt.Asker) error {
	c := a.client()
	began := time.Now()
	p := a.progress(func() string { return waitingFor(ctx, c, target) })
	defer p.stop()
	req, err := resolveWithin(ctx, c, target, timeout)
	if err != nil {
		f := fault.From("call", err)
		if errors.Is(err, context.DeadlineExceeded) { // nothing better is known
			f = inTime(err, timeout)
		}
		late := *f
		late.Outcome = fault.NotSent
		return called{&late}
	}
	if req.Arguments, err = encodeFor(ctx, c, req, target, args); err != nil {
		return err
	}
	asked := ctx
	if timeout > 0 {
		left := max(timeout-time.Since(began), time.Millisecond)
		req.TimeoutMS = max(left.Milliseconds(), 1)
		var cancel context.CancelFunc
		asked, cancel = context.WithTimeout(ctx, left+answerGrace)
		defer cancel()
	}
	var ask func(params json.RawMessage) json.RawMessage
	if q.Open() {
		ask = func(params json.RawMessage) json.RawMessage {
			p.stop()
			return q.Fill(cmp.Or(req.Server, target), params)
		}
	}
	result, unanswered, err := c.CallAsked(asked, req, ask)
	p.stop()
	switch {
	case err != nil && ctx.Err() != nil:
		return called{&fault.Fault{Kind: fault.Canceled, Op: "call", Server: req.Server, Err: errors.New("interrupted")}}
	case err != nil:
		return called{inTime(err, timeout)}
	}
	if unanswered != "" {
		fmt.Fprintf(a.stderr, "%s asked for input (%s) that nobody could give here\n  try: %s\n", target, unanswered, howToAnswer(unanswered))
	}
	return a.printResult(result)
}

// howToAnswer says how a request of a server during a call can be answered.
func howToAnswer(method string) string {
	if method == mcp.ElicitationCreate {
		return "make the call on a terminal, where forms are filled in, or give the value as an argument"
	}
	return "make the call from an MCP client that serves it"
}

// inTime words a deadline that was given on the command line.
func inTime(err error, timeout time.Duration) *fault.Fault {
	f := *fault.From("call", err)
	if f.Kind == fault.Deadline && timeout > 0 {
		f.Err = errors.New("no answer within the --timeout")
		if f.Remedy == "" {
			f.Remedy = strings.TrimSpace("everline status " + typedName(f.Server))
		}
	}
	return &f
}

// waitingFor says how the server of a tool does that is being called.
func waitingFor(ctx context.Context, c *admin.Client, target string) string {
	ctx, cancel := context.WithTimeout(ctx, progressAsks)
	defer cancel()
	if st, err := c.Status(ctx); err == nil {
		if s := serverOf(target, st.Servers); s.Name != "" {
			return target + ": " + stateText(s)
		}
	}
	return target
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
	// A program gets what the server said, each byte of it.
	out, text, data := a.raw(), func(s string) string { return s }, func(raw []byte) []byte { return raw }
	if onScreen(a.stdout) {
		out, text, data = a.stdout, screenText, visible.JSON
	}
	if a.forMachines() || err != nil { // valid MCP or not
		fmt.Fprintf(out, "%s\n", data(raw))
	} else {
		r.print(out, text, data)
	}
	if r.IsError {
		return exit(exitFailed)
	}
	return nil
}

func (r result) print(w io.Writer, text func(string) string, data func([]byte) []byte) {
	for _, c := range r.Content {
		switch {
		case c.Type == "text":
			fmt.Fprintln(w, text(c.Text))
		case c.URI != "":
			fmt.Fprintf(w, "[%s %s]\n", c.Type, printable(c.URI))
		default:
			fmt.Fprintf(w, "[%s %s, %d bytes of base64]\n", c.Type, printable(c.MimeType), len(c.Data))
		}
	}
	if len(r.Content) == 0 && len(r.Structured) > 0 {
		fmt.Fprintf(w, "%s\n", data(r.Structured))
	}
}
