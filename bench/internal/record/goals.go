package record

import (
	"fmt"
	"io"
	"math"
	"slices"
)

// us is the target whose goals are checked.
const us = "everline"

// A goal is a number that everline is to reach.
type goal struct {
	text    string
	limit   float64
	atLeast bool // and not at most
	measure func(cells []*Cell) float64
}

// The cases of the load, of the start and of the growth that goals are about.
const (
	one16 = "echo 100 B, 16 at a time"
	one   = "echo 100 B, 1 at a time"
	large = "result of 64 KiB, 4 at a time"
	list  = "list of 200 tools, 4 at a time"
)

var goals = []goal{
	{"stdio, 16 at a time: CPU per call, x mcpgoproxy", .6, false, ratio("load", "stdio, "+one16, "cpu_us", "mcpgoproxy")},
	{"stdio, 16 at a time: throughput, x mcpgoproxy", 1.25, true, ratio("load", "stdio, "+one16, "per_s", "mcpgoproxy")},
	{"stdio, 16 at a time: throughput, x direct", .6, true, ratio("load", "stdio, "+one16, "per_s", "direct")},
	{"HTTP, 16 at a time: CPU per call, x rawproxy", .8, false, ratio("load", "http, "+one16, "cpu_us", "rawproxy")},
	{"HTTP, 16 at a time: throughput, x rawproxy", 1, true, ratio("load", "http, "+one16, "per_s", "rawproxy")},
	{"stdio, one at a time: added median latency, x mcpgoproxy's", .7, false, added("stdio, "+one, "mcpgoproxy")},
	{"HTTP, one at a time: added median latency, x rawproxy's", 1, false, added("http, "+one, "rawproxy")},
	{"stdio, results of 64 KiB: CPU per call, x mcpgoproxy", .15, false, ratio("load", "stdio, "+large, "cpu_us", "mcpgoproxy")},
	{"HTTP, results of 64 KiB: CPU per call, x rawproxy", 1.1, false, ratio("load", "http, "+large, "cpu_us", "rawproxy")},
	{"list of 200 tools: CPU per call, x mcpgoproxy", .06, false, ratio("load", "stdio, "+list, "cpu_us", "mcpgoproxy")},
	{"10 stdio servers, warm start: ms to the first complete list", 15, false, value("startup", "stdio, 10 servers", "warm_full_ms")},
	{"10 stdio servers, first start: ms more than the slowest server", 10, false, func(cells []*Cell) float64 {
		return value("startup", "stdio, 10 servers", "full_ms")(cells) - of(cells, "startup", "stdio, 10 servers", "direct").Median("full_ms")
	}},
	{"10 idle stdio servers: MiB (20, and 1 for each)", 30, false, value("startup", "stdio, 10 servers", "pss_mib")},
	{"10,000 idle sessions: MiB", 60, false, value("memory", "10000 idle sessions, 1000 of them with a stream", "sessions_mib")},
	{"each open stream: KiB", 30, false, value("memory", "10000 idle sessions, 1000 of them with a stream", "stream_kib")},
	{"kill -9 of a stdio server: ms more than its own start", 20, false, value("recover", "kill -9 of a stdio server", "added_ms")},
	{"kill -9 of a stdio server: failed calls that may be repeated", 0, false, value("recover", "kill -9 of a stdio server", "failed_safe")},
	{"kill -9 of a stdio server: executed twice", 0, false, value("recover", "kill -9 of a stdio server", "executed_twice")},
	{"kill -9 of a stdio server: short lists", 0, false, value("recover", "kill -9 of a stdio server", "lists_short")},
	{"1,000 servers: idle CPU, % of a core", 1, false, func(cells []*Cell) float64 {
		i := slices.IndexFunc(cells, func(c *Cell) bool {
			return c.Mode == "growth" && c.Case == "http, servers" && c.Target == us && c.X == 1000
		})
		if i < 0 {
			return math.NaN()
		}
		return cells[i].Median("idle_cpu_percent")
	}},
}

// none is a cell without values.
var none = &Cell{}

func of(cells []*Cell, mode, kase, target string) *Cell {
	if i := slices.IndexFunc(cells, func(c *Cell) bool { return c.Mode == mode && c.Case == kase && c.Target == target }); i >= 0 {
		return cells[i]
	}
	return none
}

func value(mode, kase, name string) func([]*Cell) float64 {
	return func(cells []*Cell) float64 { return of(cells, mode, kase, us).Median(name) }
}

func ratio(mode, kase, name, to string) func([]*Cell) float64 {
	return func(cells []*Cell) float64 {
		return of(cells, mode, kase, us).Ratio(of(cells, mode, kase, to), name)
	}
}

// added compares what two gateways add to the median without a gateway.
func added(kase, to string) func([]*Cell) float64 {
	return func(cells []*Cell) float64 {
		base := of(cells, "load", kase, "direct").Median("p50_us")
		return (of(cells, "load", kase, us).Median("p50_us") - base) / (of(cells, "load", kase, to).Median("p50_us") - base)
	}
}

// Goals prints what everline is to reach, and whether it does, as far as the
// rows tell.
func Goals(w io.Writer, rows []Row) {
	cells := Cells(rows)
	lines := [][]string{{"goal", "to reach", "measured", "reached"}}
	for _, g := range goals {
		v := g.measure(cells)
		if math.IsNaN(v) {
			continue
		}
		sign, ok := "<=", v <= g.limit
		if g.atLeast {
			sign, ok = ">=", v >= g.limit
		}
		answer := "no"
		if ok {
			answer = "yes"
		}
		lines = append(lines, []string{g.text, fmt.Sprintf("%s %g", sign, g.limit), fmt.Sprintf("%.2f", v), answer})
	}
	if len(lines) > 1 {
		fmt.Fprint(w, "\n## Goals\n\n")
		markdown(w, lines)
	}
}

// noise is how much a target may be behind without being told of.
const noise = 1.05

// Behind prints each case and value in which another gateway is better than
// everline.
func Behind(w io.Writer, rows []Row) {
	cells := Cells(rows)
	fmt.Fprint(w, "\n## Where everline is not first\n\n")
	found := false
	for _, t := range tables {
		for _, c := range cells {
			if c.Mode != t.mode || c.Target != us {
				continue
			}
			for _, col := range t.columns {
				if text := behind(c, col, cells); text != "" {
					found = true
					fmt.Fprintf(w, "- %s\n", text)
				}
			}
		}
	}
	if !found {
		fmt.Fprintf(w, "Nowhere in these measurements, by more than %.0f %%.\n", 100*(noise-1))
	}
}

// behind says which gateway is better than everline in one column; "" if none is.
func behind(c *Cell, col column, cells []*Cell) string {
	mine := c.Median(col.value)
	if col.ratio || col.value == "calls" || col.value == "large" || math.IsNaN(mine) || mine == 0 {
		return ""
	}
	best, who := mine, ""
	for _, o := range cells {
		if o.Mode != c.Mode || o.Case != c.Case || o.X != c.X || o.Target == "direct" || o.Failed != "" {
			continue
		}
		v := o.Median(col.value)
		if col.value == "per_s" && v > best*noise || col.value != "per_s" && v < best/noise {
			best, who = v, o.Target
		}
	}
	if who == "" {
		return ""
	}
	at := ""
	if c.X != 0 {
		at = fmt.Sprintf(" (n = %g)", c.X)
	}
	return fmt.Sprintf("%s%s, %s: %s %s, everline %s", c.Case, at, col.head, who, number(best, column{zero: true}), number(mine, col))
}
