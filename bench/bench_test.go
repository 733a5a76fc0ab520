package main

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/everline/everline/bench/internal/record"
)

// TestDriver is a whole run in small: everline's parts, a proxy and servers as
// processes, a load on each, and the report that is made of it.
func TestDriver(t *testing.T) {
	dir := t.TempDir()
	out, page := filepath.Join(dir, "out.jsonl"), filepath.Join(dir, "page.md")
	d, err := newDriver(t.Context(), "load", []string{
		"-targets", "direct,rawproxy,host", "-peers", "", "-kinds", "http,stdio", "-cases", "16 at a time", "-make", "plain",
		"-reps", "1", "-each", "100ms", "-out", out,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(d.dir)
	if err := runLoad(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if err := d.log.Close(); err != nil {
		t.Fatal(err)
	}
	rows, err := record.Read(out)
	if err != nil {
		t.Fatal(err)
	}
	cells := record.Cells(rows)
	if len(cells) != 5 { // there is no raw proxy in front of stdio
		t.Errorf("%d measurements, not 5", len(cells))
	}
	for _, c := range cells {
		if c.Failed != "" || c.Median("per_s") <= 0 || c.Median("p50_us") <= 0 || c.Median("errors") != 0 {
			t.Errorf("%s: %s: %+v %s", c.Case, c.Target, c.Rows[0].Values, c.Failed)
		}
	}
	if err := os.WriteFile(page, []byte("before\n"+beginMark+"old\n"+endMark+"after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := runReport([]string{"-in", out, "-write", page}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"before\n", "| host |", "x rawproxy", "16 at a time", endMark + "after\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page does not hold %q:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "old\n") {
		t.Error("the page holds what was there before")
	}
}

func samples(n int, value func(i int) float64) []record.Row {
	var rows []record.Row
	for i := range n {
		v := map[string]float64{"rss_mib": 40, "heap_mib": 2, "goroutines": 100, "files": 60, "threads": 12, "processes": 4}
		v["goroutines"] = value(i)
		rows = append(rows, record.Row{X: float64(10 * i), Values: v})
	}
	return rows
}

func TestGrowing(t *testing.T) {
	if err := growing(samples(60, func(i int) float64 { return 100 + float64(i%7) })); err != nil {
		t.Errorf("what goes up and down: %v", err)
	}
	if err := growing(samples(60, func(i int) float64 { return 400 - 300*math.Exp(-float64(i)/6) })); err != nil {
		t.Errorf("what has warmed up: %v", err)
	}
	err := growing(samples(60, func(i int) float64 { return 100 + float64(i)/2 }))
	if err == nil || !strings.Contains(err.Error(), "goroutines grew by") {
		t.Errorf("a leak of one in 20 s: %v", err)
	}
	if growing(samples(6, func(int) float64 { return 1 })) == nil {
		t.Error("judged by nothing")
	}
}

func TestStormValues(t *testing.T) {
	at := time.Now()
	ms := func(n int) time.Time { return at.Add(time.Duration(n) * time.Millisecond) }
	s := &storm{outcomes: []outcome{
		{id: "a", start: ms(-30), end: ms(-10)},
		{id: "b", start: ms(-5), end: ms(2), err: os.ErrClosed},
		{id: "c", safe: true, start: ms(10), end: ms(80)},
		{id: "d", start: ms(20), end: ms(60), err: os.ErrClosed},
		{id: "e", start: ms(40), end: ms(95)},
	}}
	v := s.values(at)
	if v["failed_once"] != 2 || v["failed_safe"] != 0 || v["recovery_ms"] != 95 || v["slowest_ms"] != 70 {
		t.Errorf("%v", v)
	}
}

func TestReadBenchmarks(t *testing.T) {
	now := map[string]measure{}
	text := "goos: linux\npkg: github.com/everline/everline/internal/wire\nBenchmarkParse/100B-2   1000  250.5 ns/op 1.2 MB/s  0 B/op  1 allocs/op\nPASS\n"
	if err := readBenchmarks(strings.NewReader(text), now); err != nil {
		t.Fatal(err)
	}
	if len(now) != 3 || now["internal/wire Parse/100B ns/op"].Value != 250.5 || now["internal/wire Parse/100B allocs/op"].Value != 1 {
		t.Errorf("%v", now)
	}
}

func TestCompare(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sub", "last.json")
	none, err := readLast(file)
	if err != nil || len(none.Numbers) != 0 {
		t.Fatal(none, err)
	}
	if err := writeLast(file, map[string]measure{"a": {100, "us"}}); err != nil {
		t.Fatal(err)
	}
	before, err := readLast(file)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	compare(&b, before, map[string]measure{"a": {150, "us"}, "b": {1, "us"}})
	if !strings.Contains(b.String(), "+50 %") || strings.Count(b.String(), "%") != 1 {
		t.Error(b.String())
	}
}

func TestPauses(t *testing.T) {
	trace := "level=WARN msg=x\ngc 1 @0.012s 2%: 0.026+0.39+0.10 ms clock, 0.05+0.1/0.2/0.3+0.2 ms cpu, 3->4->1 MB\ngc broken\n"
	if p := gcPauses(trace); !slices.Equal(p, []float64{26, 100}) {
		t.Errorf("%v", p)
	}
}

func TestTurn(t *testing.T) {
	if got := turn([]string{"a", "b", "c"}, 4); !slices.Equal(got, []string{"b", "c", "a"}) {
		t.Errorf("%v", got)
	}
}

func TestPeerLine(t *testing.T) {
	d := &driver{}
	d.peer = []string{"other http://127.0.0.1:{port}/mcp other --port {port} -- {argv}"}
	d.peers = filepath.Join(t.TempDir(), "none.json")
	all, err := d.readPeers()
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	w := &world{port: 77, dir: t.TempDir(), servers: []*server{{name: "s1", argv: []string{"echo", "-x"}}}}
	p, err := all[0].plan(w)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(p.commands[0].Argv, " "); got != "other --port 77 -- echo -x" || p.urls[0] != "http://127.0.0.1:77/mcp" {
		t.Errorf("%q at %v", got, p.urls)
	}
	d.peer = []string{"other"}
	if _, err := d.readPeers(); err == nil {
		t.Error("a peer without a command")
	}
}

func TestCommandLineNamesNoFileOfThisMachine(t *testing.T) {
	args := []string{"load", "-reps", "5", "-out", "/home/x.jsonl", "--everline", "/home/bin", "-kinds", "http"}
	if got := commandLine(args); got != "go run ./bench load -reps 5 -kinds http" {
		t.Error(got)
	}
}
