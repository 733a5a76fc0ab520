package svg

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestPlot(t *testing.T) {
	p := Plot{
		Title: "a < b", X: Axis{Label: "n", Log: true}, Y: Axis{Label: "us", Zero: true},
		Lines: []Line{{"one", []float64{1, 10, 1000}, []float64{3, 5, 42}}, {"two", []float64{1, 1000}, []float64{1, 2}}},
	}
	var b strings.Builder
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	dec := xml.NewDecoder(strings.NewReader(b.String()))
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("no XML: %v", err)
		}
		if e, ok := token.(xml.StartElement); ok {
			kinds[e.Name.Local]++
		}
	}
	if kinds["polyline"] != 2 || kinds["circle"] != 5 {
		t.Errorf("drawn: %v", kinds)
	}
}

func TestScales(t *testing.T) {
	s, err := newScale(Axis{Log: true}, []float64{3, 500}, 0, 300)
	if err != nil || !slices.Equal(s.ticks, []float64{1, 10, 100, 1000}) || math.Abs(s.at(10)-100) > 1e-9 {
		t.Errorf("log: %+v %v", s, err)
	}
	s, err = newScale(Axis{Zero: true}, []float64{3, 42}, 100, 0)
	if err != nil || !slices.Equal(s.ticks, []float64{0, 10, 20, 30, 40, 50}) || s.at(0) != 100 || s.at(50) != 0 {
		t.Errorf("linear: %+v %v", s, err)
	}
	for _, bad := range [][]float64{nil, {0, 1}, {math.NaN()}} {
		if _, err := newScale(Axis{Log: true}, bad, 0, 1); err == nil {
			t.Errorf("%v can be shown?", bad)
		}
	}
}
