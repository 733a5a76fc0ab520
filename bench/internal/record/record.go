// Package record keeps measurements as JSON Lines and turns them into tables.
// It does not measure.
package record

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/everline/everline/bench/internal/stat"
)

// A Row is one repetition of one measurement of one target, or, where Mode is
// Setup, what the run was made with.
type Row struct {
	Run    string             `json:"run"` // the same for all rows of one start of the driver
	At     time.Time          `json:"at"`
	Mode   string             `json:"mode"`
	Case   string             `json:"case,omitempty"`
	Target string             `json:"target,omitempty"`
	Rep    int                `json:"rep,omitempty"`
	X      float64            `json:"x,omitempty"` // what grows, where something does
	Values map[string]float64 `json:"values,omitempty"`
	Failed string             `json:"failed,omitempty"` // why there are no values
	Facts  map[string]string  `json:"facts,omitempty"`
}

// Setup is the mode of the row that tells what a run was made with.
const Setup = "setup"

// A Log appends rows to a file.
type Log struct {
	run  string
	file io.WriteCloser
}

// Create opens a log for a new run. The file is appended to, or is "" for none.
func Create(path string) (*Log, error) {
	l := &Log{run: time.Now().UTC().Format("2006-01-02T15:04:05.000")}
	if path == "" {
		return l, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	l.file = f
	return l, nil
}

// Add writes one row and returns it with its run and time filled in.
func (l *Log) Add(r Row) (Row, error) {
	r.Run, r.At = l.run, time.Now().UTC()
	line, err := json.Marshal(r)
	if err != nil || l.file == nil {
		return r, err
	}
	_, err = l.file.Write(append(line, '\n'))
	return r, err
}

// Close closes the file.
func (l *Log) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// Read returns all rows of a file.
func Read(path string) ([]Row, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var rows []Row
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var r Row
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		rows = append(rows, r)
	}
	return rows, lines.Err()
}

// A Cell is all repetitions of one measurement of one target.
type Cell struct {
	Mode, Case, Target string
	X                  float64
	Reps               int
	Failed             string
	Rows               []Row
}

// Median is the median of one value over the repetitions; NaN if it is not there.
func (c *Cell) Median(value string) float64 { return stat.Median(c.values(value)) }

// Spread is how far apart the repetitions of a value are, as a share of the median.
func (c *Cell) Spread(value string) float64 { return stat.Spread(c.values(value)) }

func (c *Cell) values(name string) []float64 {
	var v []float64
	for _, r := range c.Rows {
		if x, ok := r.Values[name]; ok {
			v = append(v, x)
		}
	}
	return v
}

// Ratio is the median of the ratios of a value to that of another target in
// the same repetition, so that what changes from one repetition to the next,
// the machine above all, cancels out; NaN if none has both.
func (c *Cell) Ratio(of *Cell, value string) float64 {
	var ratios []float64
	for _, r := range c.Rows {
		i := slices.IndexFunc(of.Rows, func(o Row) bool { return o.Rep == r.Rep && o.Run == r.Run })
		if i < 0 {
			continue
		}
		mine, have := r.Values[value]
		if base := of.Rows[i].Values[value]; have && base != 0 {
			ratios = append(ratios, mine/base)
		}
	}
	return stat.Median(ratios)
}

// Cells groups rows, in the order in which they came.
func Cells(rows []Row) []*Cell {
	type key struct {
		mode, kase, target string
		x                  float64
	}
	at := map[key]*Cell{}
	var all []*Cell
	for _, r := range rows {
		if r.Mode == Setup {
			continue
		}
		k := key{r.Mode, r.Case, r.Target, r.X}
		c := at[k]
		if c == nil {
			c = &Cell{Mode: r.Mode, Case: r.Case, Target: r.Target, X: r.X}
			at[k] = c
			all = append(all, c)
		}
		c.Reps++
		c.Rows = append(c.Rows, r)
		if c.Failed == "" {
			c.Failed = r.Failed
		}
	}
	return all
}
