package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/daemon"
	"github.com/everline/everline/internal/drill"
	"github.com/everline/everline/internal/show"
	"github.com/everline/everline/internal/toolargs"
	"github.com/everline/everline/internal/typed"
)

// drillFlags are the flags of drill.
type drillFlags struct {
	fault    string
	length   time.Duration
	delay    time.Duration
	recovery time.Duration
	every    time.Duration
	call     string
	args     string
	yes      bool
}

func newDrill(a *app) *cobra.Command {
	var f drillFlags
	cmd := &cobra.Command{
		Use:               "drill [server] --fault FAULT",
		ValidArgsFunction: one(a.completeServers),
		Short:             "Break a server on purpose and see what clients see",
		Long: "Break a server of the running everline on purpose, call it at a steady rate meanwhile, and report what the\n" +
			"calls, the lists and the other clients saw. The fault ends by itself, and immediately when drill is interrupted.\n\n" +
			"  kill     SIGKILL to the server's process and what it started; all connections to a URL are cut\n" +
			"  hang     requests are written, and nothing that the server says comes through\n" +
			"  404      an HTTP server answers as one that has forgotten the session\n" +
			"  slow     each answer is held back for --delay\n" +
			"  garbage  what is no message comes ahead of what the server says\n" +
			"  drop     stdout is closed; the open event streams of a URL are cut\n\n" +
			"kill, 404 and drop happen once, and calls go on for --for; the others last so long. Without --call the calls are\n" +
			"pings on the way of every call. Exits with 0 if every call was answered, no list was short and the server has\n" +
			"recovered, and with 1 if not. It asks first; --yes says yes to that, and to a tool that may not be harmless.",
		Example: "everline drill github --fault kill --yes\neverline drill github --fault hang --for 5s --call github.search --args '{\"q\": \"x\"}'",
		Args:    cobra.MaximumNArgs(1),
		RunE: runE(func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), daemon.StopSignals...)
			defer stop()
			return a.drill(ctx, args, f)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.fault, "fault", "", "what to do: "+strings.Join(everline.DrillFaults(), ", "))
	flags.DurationVar(&f.length, "for", 10*time.Second, "how long hang, slow and garbage last, and for how long there are calls at least")
	flags.DurationVar(&f.delay, "delay", time.Second, "how long slow holds an answer back")
	flags.DurationVar(&f.recovery, "recovery", 30*time.Second, "how long the server may take to recover by itself; then it is told to connect immediately")
	flags.DurationVar(&f.every, "every", 100*time.Millisecond, "time between two calls")
	flags.StringVar(&f.call, "call", "", "call this tool, server.tool, instead of pings")
	flags.StringVar(&f.args, "args", "{}", "the tool's arguments, a JSON object")
	flags.BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	_ = cmd.RegisterFlagCompletionFunc("call", a.completeTools)                                                                     // the flag is there
	_ = cmd.RegisterFlagCompletionFunc("fault", cobra.FixedCompletions(everline.DrillFaults(), cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

func (a *app) drill(ctx context.Context, args []string, f drillFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	c := a.client()
	st, err := c.Status(ctx)
	if err != nil {
		return err
	}
	o := drill.Options{
		Client: c, Endpoint: st.Endpoint, Every: f.every, Live: a.drillLive(),
		Request: admin.DrillRequest{Fault: f.fault, ForMS: f.length.Milliseconds(), DelayMS: f.delay.Milliseconds(), RecoveryMS: f.recovery.Milliseconds()},
	}
	if o.Call, o.Server, err = a.drillCall(ctx, f); err != nil {
		return err
	}
	s, err := drilledServer(args, o.Server, st.Servers)
	if err != nil {
		return err
	}
	o.Server = s.Name
	if err := a.confirmDrill(ctx, s, f); err != nil {
		return err
	}
	o.Broken = func() {
		fmt.Fprintf(a.stderr, "%s is broken on purpose: %s. Ctrl-C ends it.\n", shownName(s.Name), f.fault)
	}
	report, err := drill.Run(ctx, o)
	if o.Live != nil {
		clearLine(a.stderr, a.stdout)
	}
	switch {
	case ctx.Err() != nil:
		return &fault.Fault{Kind: fault.Canceled, Op: "drill", Server: s.Name, Err: errors.New("interrupted; the fault is off again")}
	case err == nil:
		return a.drillReport(report)
	case fault.KindOf(err) == fault.Invalid:
		return asUsage(err)
	default:
		return err
	}
}

// check reads the words and times.
func (f *drillFlags) check() error {
	known := everline.DrillFaults()
	all := "--fault " + strings.Join(known, "|")
	switch near := typed.Nearest(f.fault, known); {
	case f.fault == "":
		return usage(all, "--fault is missing")
	case slices.Contains(known, f.fault):
	case near != "":
		return usage("did you mean "+near+"?", "no fault is called %q", f.fault)
	default:
		return usage(all, "no fault is called %q", f.fault)
	}
	for name, d := range map[string]time.Duration{"for": f.length, "delay": f.delay, "recovery": f.recovery} {
		if d < time.Millisecond || d > 10*time.Minute {
			return usage("--"+name+" 10s", "--%s must be between 1 ms and 10 min", name)
		}
	}
	if why := toolargs.NotObject([]byte(f.args)); why != "" {
		return usage(`--args '{"key": "value"}'`, "--args is not a JSON object: %s", why)
	}
	if f.every < time.Millisecond {
		return usage("--every 100ms", "--every must be 1 ms or more")
	}
	return nil
}

// drillCall is the tool to call, and its server; nil for pings.
func (a *app) drillCall(ctx context.Context, f drillFlags) (*admin.CallRequest, string, error) {
	if f.call == "" {
		return nil, "", nil
	}
	req, err := resolve(ctx, a.client(), f.call)
	if err != nil {
		return nil, "", err
	}
	req.Arguments, req.Probe = json.RawMessage(f.args), true
	tools, err := a.client().Tools(ctx)
	if err != nil {
		return nil, "", err
	}
	for _, t := range tools {
		if isTool(t, req) {
			if !t.ReadOnly && !t.Idempotent && !f.yes {
				return nil, "", usage("--yes", "%s.%s does not say that repeating it is harmless, and would be called many times", t.Server, t.Tool)
			}
			return &req, t.Server, nil
		}
	}
	return &req, req.Server, nil
}

// drilledServer is the server that was named, else that of the tool, else the
// only one.
func drilledServer(args []string, ofTool string, servers []admin.Server) (admin.Server, error) {
	name := ofTool
	if len(args) == 1 {
		name = args[0]
	}
	if name == "" && len(servers) == 1 {
		return servers[0], nil
	}
	var names []string
	for _, s := range servers {
		if s.Name == name {
			if ofTool != "" && ofTool != name {
				return s, usage("everline drill "+ofTool, "the tool to call is one of %s, and %s is to be broken", ofTool, name)
			}
			return s, nil
		}
		names = append(names, s.Name)
	}
	if name == "" {
		return admin.Server{}, usage("everline drill NAME", "which server? There are %s", strings.Join(names, ", "))
	}
	return admin.Server{}, noServer(name, servers)
}

// confirmDrill asks whether it is meant, so that a typo breaks nothing.
func (a *app) confirmDrill(ctx context.Context, s admin.Server, f drillFlags) error {
	if f.yes {
		return nil
	}
	in, ok := a.stdin.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return usage("--yes", "drill breaks a server that works, and there is no terminal to ask whether that is meant")
	}
	fmt.Fprintf(a.stderr, "This breaks %s (%s, %s in flight) on purpose: %s. Go on? [y/N] ", shownName(s.Name), s.State, plural(s.Out, "call"), f.fault)
	answered := make(chan string, 1)
	go func() { // ends with a line; the end of the process ends its wait
		line, _ := bufio.NewReader(in).ReadString('\n')
		answered <- line
	}()
	select {
	case line := <-answered:
		if word := strings.ToLower(strings.TrimSpace(line)); word == "y" || word == "yes" {
			return nil
		}
	case <-ctx.Done():
		fmt.Fprintln(a.stderr)
	}
	fmt.Fprintln(a.stderr, "Nothing was broken.")
	return exit(exitFailed)
}

// drillLive shows how it goes on one line that a terminal overwrites; nil
// where nobody would see it.
func (a *app) drillLive() func(drill.Live) {
	if !isTerminal(a.stderr) {
		return nil
	}
	words := map[string]string{"": "starting", "broken": "the fault is on", "over": "the fault is over"}
	return func(l drill.Live) {
		if l.Elapsed < time.Second {
			return
		}
		fmt.Fprintf(a.stderr, "\r%3.0f s  %s  %s, %d failed, %d in flight  %s, %d short\x1b[K",
			l.Elapsed.Seconds(), words[l.Step], plural(l.Calls, "call"), l.Failed, l.InFlight, plural(l.Lists, "list"), l.Short)
	}
}

// clearLine takes the live line away: by stdout where that is the same
// terminal, because what goes to stderr may come later than the report.
func clearLine(err, out io.Writer) {
	if isTerminal(out) {
		err = out
	}
	fmt.Fprint(err, "\r\x1b[K")
}

func (a *app) drillReport(r drill.Report) error {
	var err error
	switch a.output {
	case "json":
		err = writeJSON(a.stdout, r)
	case "jsonl":
		err = writeLine(a.stdout, r)
	default:
		_, err = fmt.Fprint(a.stdout, drillText(r))
	}
	if err == nil && !r.OK {
		err = exit(exitFailed)
	}
	return err
}

// drillText is the report for people.
func drillText(r drill.Report) string {
	var b strings.Builder
	verdict := "every call was answered"
	if !r.OK {
		verdict = "something went wrong"
	}
	fmt.Fprintf(&b, "%s of %s: %s\n", r.Fault, shownName(r.Server), verdict)
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "  %s%s\n", pad(label, 11), fmt.Sprintf(format, args...))
	}
	line("calls", "%s", callsText(r.Probes))
	line("clients", "%s", callsText(r.Clients))
	via := "by a client of the endpoint"
	if r.Lists.Via != "endpoint" {
		via = "by the admin API"
	}
	line("lists", "%d %s, %d failed, %d short of %s", r.Lists.Count, via, r.Lists.Failed, r.Lists.Short, plural(r.Lists.Tools, "tool"))
	if r.CatalogShort {
		line("catalog", "something that %s offers was not listed all the time", shownName(r.Server))
	}
	if r.Recovered {
		line("recovery", "%s after the fault%s", show.Milliseconds(r.RecoveryMS), ifWoken(r.Woken))
	} else {
		line("recovery", "none yet%s; everline status %s", ifWoken(r.Woken), typed.Argument(r.Server))
	}
	line("generation", "%d before, %d after", r.GenerationBefore, r.GenerationAfter)
	return b.String()
}

func ifWoken(woken bool) string {
	if woken {
		return ", and only once it was told to connect"
	}
	return ""
}

// callsText says how calls went: "12, 11 answered, 1 failed (exited 1), …".
func callsText(c admin.DrillCalls) string {
	if c.Calls == 0 {
		return "none"
	}
	var kinds []string
	failed := 0
	for _, kind := range slices.Sorted(maps.Keys(c.Failed)) {
		kinds = append(kinds, fmt.Sprintf("%s %d", kind, c.Failed[kind]))
		failed += c.Failed[kind]
	}
	text := fmt.Sprintf("%d, %d answered, %d failed", c.Calls, c.Answered, failed)
	if failed > 0 {
		text += " (" + strings.Join(kinds, ", ") + ")"
	}
	if c.GaveUp > 0 {
		text += fmt.Sprintf(", %d given up by their clients", c.GaveUp)
	}
	return text + fmt.Sprintf("; waited %d, sent again %d; median %s, longest %s", c.Waited, c.Resent, show.Milliseconds(c.MedianMS), show.Milliseconds(c.LongestMS))
}
