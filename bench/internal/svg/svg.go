// Package svg draws lines over one axis, linear or logarithmic, as an SVG
// picture that can be read on a light and on a dark page. It draws nothing else.
package svg

import (
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Line is one series of points.
type Line struct {
	Name string
	X, Y []float64
}

// An Axis is what one direction means.
type Axis struct {
	Label string
	Log   bool // powers of ten; values must be above 0
	Zero  bool // a linear axis begins at 0
}

// A Plot is one picture.
type Plot struct {
	Title string
	X, Y  Axis
	Lines []Line
}

const (
	width, height              = 760, 420
	left, right, above, beneth = 78, 180, 44, 56
)

var colors = []string{"#2f6fde", "#d9662b", "#2a9d63", "#9a55c8", "#c23b5a", "#8a7a2e", "#4aa3b5", "#777777"}

// Write draws the plot. It fails where there is no point, or a point that the
// axis cannot show.
func (p Plot) Write(w io.Writer) error {
	x, err := newScale(p.X, p.values(func(l Line) []float64 { return l.X }), left, width-right)
	if err != nil {
		return fmt.Errorf("%s: x: %w", p.Title, err)
	}
	y, err := newScale(p.Y, p.values(func(l Line) []float64 { return l.Y }), height-beneth, above)
	if err != nil {
		return fmt.Errorf("%s: y: %w", p.Title, err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text x="%d" y="24" font-size="15" font-weight="bold">%s</text>`+"\n", left, html.EscapeString(p.Title))
	p.grid(&b, x, y)
	for i, l := range p.Lines {
		l.draw(&b, x, y, colors[i%len(colors)], above+10+20*i)
	}
	b.WriteString("</svg>\n")
	_, err = io.WriteString(w, b.String())
	return err
}

func (p Plot) values(of func(Line) []float64) []float64 {
	var all []float64
	for _, l := range p.Lines {
		all = append(all, of(l)...)
	}
	return all
}

func (p Plot) grid(b *strings.Builder, x, y scale) {
	for _, v := range x.ticks {
		at := x.at(v)
		fmt.Fprintf(b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#dddddd"/>`+"\n", at, above, at, height-beneth)
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", at, height-beneth+18, tickText(v))
	}
	for _, v := range y.ticks {
		at := y.at(v)
		fmt.Fprintf(b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#dddddd"/>`+"\n", left, at, width-right, at)
		fmt.Fprintf(b, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", left-8, at+4, tickText(v))
	}
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#555555"/>`+"\n", left, above, width-right-left, height-beneth-above)
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", (left+width-right)/2, height-14, html.EscapeString(p.X.Label))
	fmt.Fprintf(b, `<text transform="translate(18 %d) rotate(-90)" text-anchor="middle">%s</text>`+"\n", (above+height-beneth)/2, html.EscapeString(p.Y.Label))
}

func (l Line) draw(b *strings.Builder, x, y scale, color string, legend int) {
	var path strings.Builder
	for i := range l.X {
		fmt.Fprintf(&path, "%.1f,%.1f ", x.at(l.X[i]), y.at(l.Y[i]))
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.TrimSpace(path.String()), color)
	if len(l.X) <= 24 { // more points than that are a line
		for i := range l.X {
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", x.at(l.X[i]), y.at(l.Y[i]), color)
		}
	}
	fmt.Fprintf(b, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s" stroke-width="3"/>`, width-right+14, legend-4, width-right+34, legend-4, color)
	fmt.Fprintf(b, `<text x="%d" y="%d">%s</text>`+"\n", width-right+40, legend, html.EscapeString(l.Name))
}

// A scale maps values to places.
type scale struct {
	log      bool
	min, max float64
	from, to float64
	ticks    []float64
}

func newScale(a Axis, values []float64, from, to float64) (scale, error) {
	if len(values) == 0 {
		return scale{}, fmt.Errorf("no values")
	}
	s := scale{log: a.Log, min: slices.Min(values), max: slices.Max(values), from: from, to: to}
	if math.IsNaN(s.min) || math.IsInf(s.max, 0) {
		return scale{}, fmt.Errorf("a value is no number")
	}
	if a.Log {
		return s.decades()
	}
	if a.Zero {
		s.min = min(0, s.min)
	}
	return s.steps(), nil
}

// decades widens the scale to powers of ten.
func (s scale) decades() (scale, error) {
	if s.min <= 0 {
		return s, fmt.Errorf("%v is not above 0", s.min)
	}
	lo, hi := math.Floor(math.Log10(s.min)), math.Ceil(math.Log10(s.max))
	if lo == hi {
		hi++
	}
	s.min, s.max = math.Pow(10, lo), math.Pow(10, hi)
	for e := lo; e <= hi; e++ {
		s.ticks = append(s.ticks, math.Pow(10, e))
	}
	return s, nil
}

// steps widens the scale to round numbers, about five of them.
func (s scale) steps() scale {
	if s.max == s.min {
		s.max = s.min + 1
	}
	raw := (s.max - s.min) / 5
	power := math.Pow(10, math.Floor(math.Log10(raw)))
	step := power
	for _, k := range []float64{2, 5, 10} {
		if step < raw {
			step = k * power
		}
	}
	s.min, s.max = math.Floor(s.min/step)*step, math.Ceil(s.max/step)*step
	for v := s.min; v <= s.max+step/2; v += step {
		s.ticks = append(s.ticks, v)
	}
	return s
}

func (s scale) at(v float64) float64 {
	lo, hi := s.min, s.max
	if s.log {
		v, lo, hi = math.Log10(v), math.Log10(lo), math.Log10(hi)
	}
	return s.from + (v-lo)/(hi-lo)*(s.to-s.from)
}

func tickText(v float64) string {
	for _, unit := range []struct {
		of   float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(v) >= unit.of {
			return strconv.FormatFloat(v/unit.of, 'g', 4, 64) + unit.name
		}
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
