package record

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
)

func TestRoundTripAndTable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rows.jsonl")
	l, err := Create(file)
	if err != nil {
		t.Fatal(err)
	}
	add := func(target string, rep int, perS float64) {
		if _, err := l.Add(Row{Mode: "load", Case: "echo", Target: target, Rep: rep, Values: map[string]float64{"per_s": perS, "cpu_us": 10}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Add(Row{Mode: Setup, Facts: map[string]string{"go": "1"}}); err != nil {
		t.Fatal(err)
	}
	// The machine slows down by half and then to a tenth; the ratio stays.
	for rep, pace := range []float64{1000, 500, 100} {
		add("rawproxy", rep+1, pace)
		add("everline", rep+1, 2*pace)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	rows, err := Read(file)
	if err != nil || len(rows) != 7 {
		t.Fatal(len(rows), err)
	}
	cells := Cells(rows)
	if len(cells) != 2 || cells[1].Median("per_s") != 1000 || cells[1].Ratio(cells[0], "per_s") != 2 || !math.IsNaN(cells[1].Median("p50_us")) {
		t.Errorf("%+v", cells[1])
	}
	for style, want := range map[Style]string{
		Plain:    "  everline     1000        2.00           10        1.00  3   ",
		Markdown: "| everline | 1000 | 2.00 | 10 | 1.00 | 3 |",
	} {
		var b strings.Builder
		Write(&b, rows, style)
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s\nis not in\n%s", want, b.String())
		}
	}
}

func TestGoalsAndBehind(t *testing.T) {
	row := func(target string, perS, cpu float64) Row {
		return Row{Mode: "load", Case: "http, " + one16, Target: target, Rep: 1, Values: map[string]float64{"per_s": perS, "cpu_us": cpu, "p50_us": 10}}
	}
	rows := []Row{row("direct", 9000, 1), row("rawproxy", 1000, 50), row("everline", 1200, 45)}
	var b strings.Builder
	Goals(&b, rows)
	for _, want := range []string{
		"| HTTP, 16 at a time: CPU per call, x rawproxy | <= 0.8 | 0.90 | no |",
		"| HTTP, 16 at a time: throughput, x rawproxy | >= 1 | 1.20 | yes |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s\nis not in\n%s", want, b.String())
		}
	}
	b.Reset()
	Behind(&b, rows)
	if !strings.Contains(b.String(), "Nowhere") {
		t.Error(b.String())
	}
	b.Reset()
	Behind(&b, append(rows, row("other", 1000, 20)))
	if !strings.Contains(b.String(), "- http, "+one16+", CPU us/call: other 20, everline 45") || strings.Contains(b.String(), "calls/s") {
		t.Error(b.String())
	}
}
