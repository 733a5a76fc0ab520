package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/everline/everline/bench/internal/record"
)

// options are the flags that the modes share.
type options struct {
	out      string
	targets  string
	kinds    string
	only     *regexp.Regexp // cases; nil: all
	reps     int
	each     time.Duration
	make     string
	everline string
	peers    string
	peer     []string
	profile  string
	svg      string
	soakFor  time.Duration
	write    string
}

func (o *options) add(f *flag.FlagSet) {
	f.StringVar(&o.out, "out", "", "file that gets a JSON line for each repetition")
	f.StringVar(&o.targets, "targets", "", "targets by name, with commas (default: all that there are)")
	f.StringVar(&o.kinds, "kinds", "stdio,http", "how servers are reached")
	f.Func("cases", "only cases whose name this regular expression matches", func(s string) (err error) {
		o.only, err = regexp.Compile(s)
		return err
	})
	f.IntVar(&o.reps, "reps", 5, "repetitions; targets take turns in each")
	f.DurationVar(&o.each, "each", 4*time.Second, "time of one load")
	f.StringVar(&o.make, "make", "sdk", "make of the servers: sdk (go-sdk) or plain (costs as little as can be)")
	f.StringVar(&o.everline, "everline", "", "the binary to measure (default: it is built)")
	f.StringVar(&o.peers, "peers", defaultPeers(), "file that describes other gateways, as scripts/peers.sh writes it")
	f.Func("peer", "another gateway: 'NAME URL COMMAND ARGS', with the placeholders of the peers file; may be repeated", func(s string) error {
		o.peer = append(o.peer, s)
		return nil
	})
	f.StringVar(&o.profile, "profile", "", "folder for the profiles of the target host")
	f.StringVar(&o.svg, "svg", "", "folder for graphs")
	f.StringVar(&o.write, "write", "", "page that outages writes")
	f.DurationVar(&o.soakFor, "for", time.Hour, "how long a soak lasts")
}

// A driver is one start of the program: what is measured, and where it goes.
type driver struct {
	options
	exe     string // this program
	dir     string // for everything that is written while measuring
	log     *record.Log
	all     []*target
	rows    []record.Row // of this run
	started int          // worlds so far
}

func newDriver(ctx context.Context, mode string, args []string) (*driver, error) {
	d := &driver{}
	f := flag.NewFlagSet("bench "+mode, flag.ContinueOnError)
	d.add(f)
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	return d, d.open(ctx)
}

func (d *driver) open(ctx context.Context) (err error) {
	if d.exe, err = os.Executable(); err != nil {
		return err
	}
	if d.dir, err = os.MkdirTemp("", "everline-bench-"); err != nil {
		return err
	}
	if d.all, err = d.findTargets(); err != nil {
		return err
	}
	for _, t := range d.all {
		if t.name != "everline" {
			continue
		}
		if err := d.findEverline(ctx); err != nil {
			return err
		}
		t.version = d.everlineVersion(ctx)
	}
	if d.log, err = record.Create(d.out); err != nil {
		return err
	}
	return d.emit(record.Row{Mode: record.Setup, Facts: d.facts()})
}

// findEverline builds the binary as it is released, if none is named.
func (d *driver) findEverline(ctx context.Context) (err error) {
	if d.everline == "" {
		d.everline = filepath.Join(d.dir, "everline")
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=auto", "-o", d.everline, modulePath+"/cmd/everline")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("building everline: %w\n%s", err, out)
		}
	}
	d.everline, err = filepath.Abs(d.everline)
	return err
}

func (d *driver) everlineVersion(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, d.everline, "--version").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(strings.TrimPrefix(string(out), "everline version "))
}

// close prints the run as tables and removes what was written besides.
func (d *driver) close() error {
	record.Write(os.Stdout, d.rows, record.Plain)
	return errors.Join(d.log.Close(), os.RemoveAll(d.dir))
}

func (d *driver) emit(r record.Row) error {
	r, err := d.log.Add(r)
	d.rows = append(d.rows, r)
	return err
}

// say tells on stderr what is being done.
func (d *driver) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// facts are what a reader needs to measure the same again.
func (d *driver) facts() map[string]string {
	facts := map[string]string{
		"command": commandLine(os.Args[1:]),
		"go":      runtime.Version(), "system": runtime.GOOS + "/" + runtime.GOARCH,
		"cpus": fmt.Sprint(runtime.NumCPU()), "cpu": cpuModel(), "servers": d.make,
	}
	for _, t := range d.all {
		if t.version != "" {
			facts["version of "+t.name] = t.version
		}
	}
	return facts
}

// commandLine is what to type for the same measurement elsewhere: without the
// files of this machine.
func commandLine(args []string) string {
	line := "go run ./bench"
	files := []string{"out", "svg", "profile", "everline", "peers", "write"}
	for i := 0; i < len(args); i++ {
		if name := strings.TrimLeft(args[i], "-"); name != args[i] && slices.Contains(files, name) {
			i++ // and its value
			continue
		}
		line += " " + args[i]
	}
	return line
}

func cpuModel() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// wanted tells whether a case is among those of -cases.
func (d *driver) wanted(name string) bool { return d.only == nil || d.only.MatchString(name) }

// eachKind does something for each kind of server that was asked for.
func (d *driver) eachKind(f func(kind string) error) error {
	var errs []error
	for kind := range strings.SplitSeq(d.kinds, ",") {
		if kind != stdio && kind != overHTTP {
			return fmt.Errorf("-kinds: %q is neither stdio nor http", kind)
		}
		errs = append(errs, f(kind))
	}
	return errors.Join(errs...)
}

// turn returns the targets in the order of a repetition: each is first in
// turn, so that none always has the place after the same neighbour.
func turn[T any](of []T, rep int) []T {
	if len(of) == 0 {
		return nil
	}
	k := rep % len(of)
	return append(append(make([]T, 0, len(of)), of[k:]...), of[:k]...)
}
