package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/everline/everline/bench/internal/stat"
)

// addPauses adds what the gateway's own trace tells of its garbage collection,
// where there is one: how often, and how long the program stood still.
func (w *world) addPauses(v map[string]float64) error {
	if w.t.name != "everline" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(w.dir, "gateway.log"))
	if err != nil {
		return err
	}
	pauses := gcPauses(string(text))
	slices.Sort(pauses)
	v["gc_cycles"] = float64(len(pauses)) / 2
	v["gc_pause_p50_us"], v["gc_pause_max_us"] = stat.Quantile(pauses, .5), stat.Quantile(pauses, 1)
	return nil
}

// gcPauses reads the two pauses of each collection, in microseconds, from lines
// like "gc 1 @0.012s 2%: 0.026+0.39+0.10 ms clock, ...".
func gcPauses(trace string) []float64 {
	var pauses []float64
	for line := range strings.Lines(trace) {
		if !strings.HasPrefix(line, "gc ") {
			continue
		}
		_, rest, _ := strings.Cut(line, "%: ")
		clock, _, ok := strings.Cut(rest, " ms clock")
		parts := strings.Split(clock, "+")
		if !ok || len(parts) != 3 {
			continue
		}
		for _, p := range []string{parts[0], parts[2]} {
			if ms, err := strconv.ParseFloat(p, 64); err == nil {
				pauses = append(pauses, ms*1000)
			}
		}
	}
	return pauses
}
