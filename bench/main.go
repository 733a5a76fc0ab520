// Command bench measures everline from outside, side by side with what else
// there is, in one run on one machine. It is not part of everline: it starts
// the binary as a user would, and uses the packages below it only to speak the
// protocol cheaply.
//
//	go run ./bench load -reps 5                 # throughput, latency, CPU per call
//	go run ./bench startup | recover | stall | memory | tail
//	go run ./bench growth -svg docs/reference   # how cost grows
//	go run ./bench soak -for 1h                 # load and faults; fails if something grows
//	go run ./bench outages                      # servers away for 5 to 400 s; 8 minutes
//	go run ./bench pages                        # what ten open pages cost calls, and everline
//	go run ./bench quick                        # Go benchmarks and a short load, compared with the last run
//	go run ./bench report -in results.jsonl -write docs/reference/performance-measured.md
//
// All traffic is on loopback, every loop ends by itself, and only processes
// that the driver started are stopped.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/everline/everline"
	"github.com/everline/everline/bench/internal/echo"
)

// modes are what can be measured, and the reports.
var modes = map[string]func(context.Context, *driver) error{
	"load":    runLoad,
	"startup": runStartup,
	"recover": runRecover,
	"stall":   runStall,
	"memory":  runMemory,
	"tail":    runTail,
	"growth":  runGrowth,
	"soak":    runSoak,
	"outages": runOutages,
	"pages":   runPages,
}

// roles are what the driver starts itself as.
var roles = map[string]func(args []string) error{
	echo.Role:  echo.Main,
	"rawproxy": rawProxyMain,
	"sdkproxy": sdkProxyMain,
	"host":     hostMain,
	frailRole:  frailMain,
}

func main() {
	everline.RunShim() // for the host role, which starts servers as everline does
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: bench load|startup|recover|stall|memory|tail|growth|soak|outages|pages|all|quick|report [flags]; -h after one of them tells its flags")

func run(args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	name, rest := args[0], args[1:]
	if role := roles[name]; role != nil {
		return role(rest)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), stopSignals...)
	defer cancel()
	switch name {
	case "report":
		return runReport(rest)
	case "peers": // the folder that scripts/peers.sh installs them into
		_, err := fmt.Println(filepath.Dir(defaultPeers()))
		return err
	case "quick":
		return runQuick(ctx, rest)
	}
	mode := modes[name]
	if name == "all" {
		mode = runAll
	}
	if mode == nil {
		return fmt.Errorf("unknown mode %q; %w", name, errUsage)
	}
	d, err := newDriver(ctx, name, rest)
	if err != nil {
		return err
	}
	return errors.Join(mode(ctx, d), d.close())
}

// runAll is one complete run, as the performance page shows it.
func runAll(ctx context.Context, d *driver) error {
	var errs []error
	for _, mode := range []string{"startup", "recover", "stall", "memory", "tail", "load"} {
		if ctx.Err() == nil {
			errs = append(errs, modes[mode](ctx, d))
		}
	}
	return errors.Join(errs...)
}
