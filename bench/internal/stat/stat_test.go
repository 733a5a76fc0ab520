package stat

import (
	"math"
	"testing"
)

func TestMedianAndQuantile(t *testing.T) {
	if m := Median([]float64{9, 1, 5}); m != 5 {
		t.Errorf("odd: %v", m)
	}
	if m := Median([]float64{4, 1, 2, 9}); m != 3 {
		t.Errorf("even: %v", m)
	}
	if m := Median(nil); !math.IsNaN(m) {
		t.Errorf("none: %v", m)
	}
	s := []int64{0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100}
	for q, want := range map[float64]int64{0: 0, .5: 50, .99: 100, 1: 100, .1: 10} {
		if got := Quantile(s, q); got != want {
			t.Errorf("%v: %d, want %d", q, got, want)
		}
	}
	if s := Spread([]float64{90, 100, 120}); s != .3 {
		t.Errorf("spread %v", s)
	}
}

func TestSlopeIgnoresTheWild(t *testing.T) {
	var x, flat, rising []float64
	for i := range 40 {
		x = append(x, float64(i))
		noise := float64(i % 3)
		if i%7 == 0 {
			noise = 1000 // a spike now and then
		}
		flat = append(flat, 50+noise)
		rising = append(rising, 50+2*float64(i)+noise)
	}
	if s := Slope(x, flat); math.Abs(s) > .1 {
		t.Errorf("flat: %v", s)
	}
	if s := Slope(x, rising); math.Abs(s-2) > .2 {
		t.Errorf("rising by 2: %v", s)
	}
	if s := Slope([]float64{1}, []float64{1}); s != 0 {
		t.Errorf("one point: %v", s)
	}
}
