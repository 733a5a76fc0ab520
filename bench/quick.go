package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/everline/everline/bench/internal/record"
)

// A measure is one number of a quick run.
type measure struct {
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// runQuick runs the Go benchmarks and a short load, and prints both in one
// table beside the numbers of the last quick run on this machine.
func runQuick(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("bench quick", flag.ContinueOnError)
	d := &driver{}
	d.add(f)
	benchtime := f.String("benchtime", "200ms", "time of each Go benchmark")
	packages := f.String("packages", "./...", "packages whose benchmarks are run; none if empty")
	last := f.String("last", lastFile(), "file with the numbers of the last run")
	if err := f.Parse(args); err != nil {
		return err
	}
	now := map[string]measure{}
	if *packages != "" {
		if err := goBenchmarks(ctx, *packages, *benchtime, now); err != nil {
			return err
		}
	}
	if err := d.open(ctx); err != nil {
		return err
	}
	err := runLoad(ctx, d)
	addLoads(now, d.rows)
	err = errors.Join(err, d.log.Close(), os.RemoveAll(d.dir))
	before, readErr := readLast(*last)
	compare(os.Stdout, before, now)
	return errors.Join(err, readErr, writeLast(*last, now))
}

// goBenchmarks runs benchmarks and adds what they print.
func goBenchmarks(ctx context.Context, packages, benchtime string, into map[string]measure) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-run", "^$", "-bench", ".", "-benchmem", "-timeout", "20m", "-benchtime", benchtime}, strings.Fields(packages)...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	readErr := readBenchmarks(out, into)
	return errors.Join(readErr, cmd.Wait())
}

var benchLine = regexp.MustCompile(`^(Benchmark\S+?)(?:-\d+)?\s+\d+\s+(.*)$`)

// readBenchmarks adds each number of each line that go test -bench prints.
func readBenchmarks(r io.Reader, into map[string]measure) error {
	pkg := ""
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		if rest, ok := strings.CutPrefix(line, "pkg: "); ok {
			pkg = strings.TrimPrefix(strings.TrimPrefix(rest, modulePath), "/")
			continue
		}
		m := benchLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		name := strings.TrimPrefix(pkg+" "+strings.TrimPrefix(m[1], "Benchmark"), " ")
		fields := strings.Fields(m[2])
		for i := 0; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil || fields[i+1] == "MB/s" { // says the same as ns/op
				continue
			}
			into[name+" "+fields[i+1]] = measure{value, fields[i+1]}
		}
	}
	return lines.Err()
}

const modulePath = "github.com/everline/everline"

// addLoads adds the medians of everline, and their ratios, which a machine that
// is busy changes less.
func addLoads(into map[string]measure, rows []record.Row) {
	cells := record.Cells(rows)
	for _, c := range cells {
		if c.Target != "everline" || c.Mode != "load" {
			continue
		}
		for value, unit := range map[string]string{"per_s": "calls/s", "p50_us": "us", "p99_us": "us", "cpu_us": "us CPU/call"} {
			into["load "+c.Case+" "+value] = measure{c.Median(value), unit}
			for _, ref := range cells {
				if ref.Mode == c.Mode && ref.Case == c.Case && ref.Target != c.Target && (ref.Target == "rawproxy" || ref.Target == "sdkproxy") {
					into["load "+c.Case+" "+value+" / "+ref.Target] = measure{c.Ratio(ref, value), "ratio"}
				}
			}
		}
	}
}

// lastFile is where the numbers of this machine are kept.
func lastFile() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	host, _ := os.Hostname() // without a name the rest tells machines apart
	sum := sha256.Sum256([]byte(strings.Join([]string{host, cpuModel(), fmt.Sprint(runtime.NumCPU()), runtime.GOARCH, runtime.Version()}, "\n")))
	return filepath.Join(cache, "everline-bench", "last-"+hex.EncodeToString(sum[:6])+".json")
}

// A kept file is the numbers of one run.
type kept struct {
	At      time.Time          `json:"at"`
	Numbers map[string]measure `json:"numbers"`
}

func readLast(file string) (k kept, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return kept{}, nil
	}
	if err != nil {
		return kept{}, err
	}
	return k, json.Unmarshal(text, &k)
}

func writeLast(file string, now map[string]measure) error {
	maps.DeleteFunc(now, func(_ string, m measure) bool { return m.Value != m.Value }) // JSON has no NaN
	text, err := json.MarshalIndent(kept{time.Now().UTC(), now}, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

// compare prints all numbers of now, beside those of before.
func compare(w io.Writer, before kept, now map[string]measure) {
	last := "last run"
	if !before.At.IsZero() {
		last = before.At.Local().Format("2006-01-02 15:04")
	}
	fmt.Fprintf(w, "\n%-88s %12s %16s %8s\n", "", "now", last, "")
	for _, name := range slices.Sorted(maps.Keys(now)) {
		m, old := now[name], before.Numbers[name]
		was, change := "", ""
		if old.Value != 0 {
			was = amount(old.Value)
			if m.Value != old.Value {
				change = fmt.Sprintf("%+.0f %%", 100*(m.Value-old.Value)/old.Value)
			}
		}
		fmt.Fprintf(w, "%-88s %12s %16s %8s\n", name, amount(m.Value), was, change)
	}
}

func amount(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }
