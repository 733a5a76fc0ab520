package config

import (
	"math"
	"strconv"
	"strings"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/conf/tree"
)

// Limits are what the processes of one server may use at most, on systems that
// let everline enforce it; 0: no limit.
type Limits struct {
	Memory int64   // bytes, of all its processes together
	Pids   int     // processes and threads
	CPU    float64 // processors: 0.5 is half of one
}

func limits(to *Limits) []key {
	return []key{
		{"memory", size(&to.Memory, 1<<20)},
		{"pids", number(&to.Pids, 1)},
		{"cpu", processors(&to.CPU)},
	}
}

// mostProcessors is more than any machine has.
const mostProcessors = 4096

// processors takes a number of processors, which need not be whole.
func processors(to *float64) setter {
	const remedy = "write a number of processors, like 0.5 or 2"
	return func(r *reader, n *tree.Node) *fault.Fault {
		if n.Kind != tree.Number {
			return r.wrongKind(n, "a number of processors")
		}
		v, err := strconv.ParseFloat(strings.ReplaceAll(n.Text, "_", ""), 64)
		if err != nil || math.IsNaN(v) || v < 0.01 || v > mostProcessors {
			return tree.Invalid(r.file, n.Pos, remedy, "%s is not between 0.01 and %d processors", n.Text, mostProcessors)
		}
		*to = v
		return nil
	}
}
