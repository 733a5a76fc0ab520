package main

import (
	"context"
	"fmt"
	"net/http"
	"os/signal"
	"time"

	"github.com/spf13/cobra"

	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/daemon"
	"github.com/everline/everline/internal/demo"
	"github.com/everline/everline/internal/show"
)

func newDemo(a *app) *cobra.Command {
	var opts demo.Options
	var length time.Duration
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See servers being killed while every call is answered",
		Long: "Starts a gateway with two built-in servers, calls their tools at a steady rate, kills one with SIGKILL and\n" +
			"restarts the other without its sessions every few seconds, and shows what the clients saw. Then the gateway\n" +
			"stays up until it is interrupted, unless --for is given.",
		Args: cobra.NoArgs,
		RunE: runE(func(cmd *cobra.Command, _ []string) error {
			stay := !cmd.Flags().Changed("for")
			opts.For = length
			return a.demo(cmd.Context(), opts, stay)
		}),
	}
	flags := cmd.Flags()
	flags.DurationVar(&length, "for", 20*time.Second, "how long servers are broken; then the demo ends")
	flags.DurationVar(&opts.Every, "every", 1500*time.Millisecond, "time between two faults")
	flags.StringVar(&opts.Listen, "listen", "127.0.0.1:0", "address of the demo's endpoint")
	return cmd
}

// newDemoServer is what the demo's gateway starts as a child.
func newDemoServer(s *streams) *cobra.Command {
	return &cobra.Command{
		Use:    "demo-server NAME LEDGER",
		Hidden: true,
		Args:   cobra.ExactArgs(2),
		RunE: runE(func(_ *cobra.Command, args []string) error {
			return demo.ServeStdio(args[0], args[1], s.stdin, s.raw())
		}),
	}
}

func (a *app) demo(ctx context.Context, opts demo.Options, stay bool) (err error) {
	ctx, stop := signal.NotifyContext(ctx, daemon.StopSignals...)
	defer stop()
	self, err := selfPath()
	if err != nil {
		return err
	}
	journal := admin.NewJournal()
	opts.Command, opts.Emit = []string{self, "demo-server"}, journal.Record
	if !a.forMachines() {
		opts.Live = a.demoLine
	}
	d, err := demo.Start(ctx, opts)
	if err != nil {
		return err
	}
	defer func() { err = endDemo(ctx, d, err) }()
	endAdmin, err := serveDemoAdmin(d, journal)
	if err != nil {
		return err
	}
	defer endAdmin()
	fmt.Fprintf(a.stderr, "A gateway at %s with two built-in servers.\nOne of them is killed or restarted every %s while clients call both.\n"+
		"Watch from another terminal:\n  %s top --state-dir %s\n\n", d.URL(), opts.Every, show.Program, d.StateDir())
	report, err := d.Run(ctx)
	if err == nil {
		err = a.demoReport(report)
	}
	if err == nil && stay && ctx.Err() == nil {
		fmt.Fprintf(a.stderr, "\nThe gateway stays up: point an MCP client at\n  %s\nor end it with Ctrl-C.\n", d.URL())
		<-ctx.Done()
	}
	if err == nil && !report.OK() {
		err = exit(exitFailed)
	}
	return err
}

// endDemo closes the demo within a deadline of its own. What failed before
// counts more than what fails then.
func endDemo(ctx context.Context, d *demo.Demo, failed error) error {
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	if err := d.Close(closing); failed == nil {
		return err
	}
	return failed
}

// serveDemoAdmin lets status and top look at the demo. The caller must call
// end.
func serveDemoAdmin(d *demo.Demo, journal *admin.Journal) (end func(), err error) {
	socket, err := admin.Listen(d.StateDir())
	if err != nil {
		return nil, err
	}
	api := admin.New(admin.Options{Hub: d.Hub(), Journal: journal, Endpoint: d.URL(), Version: buildVersion(), StateDir: d.StateDir()})
	s := &http.Server{Handler: api.Handler(), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan struct{})
	go func() { // ends with the server's Close
		defer close(served)
		_ = s.Serve(socket) // always ErrServerClosed: Close is the only way out
	}()
	return func() {
		api.EndStreams()
		_ = s.Close() // ends the listener, too; what was asked just then is of no use any more
		<-served
	}, nil
}

// demoLine shows what the clients have seen so far, on one line that a
// terminal overwrites.
func (a *app) demoLine(r demo.Report) {
	if !isTerminal(a.stderr) {
		return
	}
	fmt.Fprintf(a.live(), "\r%s\x1b[K", demoText(r, terminalWidth(a.stderr)))
}

// demoText is what the clients have seen, in less than width columns, because a
// line that breaks could not be overwritten; 0 means any. Where there is no room
// for all, what matters most stays.
func demoText(r demo.Report, width int) string {
	back := fmt.Sprintf("back in %.0f ms", r.RecoveryMsP50)
	calls := fmt.Sprintf("%d calls, %d failed", r.Calls, r.Failed)
	kills := fmt.Sprintf("%3.0f s  %d kills", r.Seconds, r.Restarts)
	for _, text := range []string{
		fmt.Sprintf("%s  %s, %d twice  %d lists, %d short  %s", kills, calls, r.ExecutedTwice, r.Lists, r.ShortLists, back),
		fmt.Sprintf("%s  %s, %d twice  %d short lists  %s", kills, calls, r.ExecutedTwice, r.ShortLists, back),
		kills + "  " + calls + "  " + back,
		calls + "  " + back,
	} {
		if width <= 0 || show.Width(text) < width {
			return text
		}
	}
	return show.Cut(calls, width-1)
}

func (a *app) demoReport(r demo.Report) error {
	if a.forMachines() {
		return writeLine(a.stdout, r)
	}
	verdict := "every promise was kept"
	if !r.OK() {
		verdict = "a promise was broken"
	}
	if isTerminal(a.stderr) {
		fmt.Fprintln(a.stdout) // leaves the live line as it is
	}
	_, err := fmt.Fprintf(a.stdout, `%.0f seconds, servers killed or restarted %d times: %s
  calls      %d, of which %d were answered and %d failed
  run twice  %d
  unknown    %d calls that must not run twice were cut off, and said so
  lists      %d, of which %d lacked a tool
  recovery   %.0f ms in the middle, %.0f ms at most
             (the killed process itself needs %.0f ms to start, %.0f ms at most)
`, r.Seconds, r.Restarts, verdict, r.Calls, r.Answered, r.Failed, r.ExecutedTwice, r.OutcomeUnknown, r.Lists, r.ShortLists,
		r.RecoveryMsP50, r.RecoveryMsMax, r.StartMsP50, r.StartMsMax)
	return err
}
