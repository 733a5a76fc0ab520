// Package stat is the little statistics that measurements need: medians,
// quantiles, and a slope that a few wild samples do not move. It knows nothing
// of what the numbers mean.
package stat

import (
	"math"
	"slices"
)

// Quantile returns the value below which the share q (0 to 1) of the samples
// lies, the nearest sample counted. It is 0 where there are none. The samples
// must be sorted.
func Quantile[T ~int64 | ~float64](sorted []T, q float64) T {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(math.Round(q*float64(len(sorted)-1)))]
}

// Median returns the middle of the samples, or the mean of the two in the
// middle; NaN where there are none.
func Median(samples []float64) float64 {
	if len(samples) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(samples))
	half := len(s) / 2
	if len(s)%2 == 1 {
		return s[half]
	}
	return (s[half-1] + s[half]) / 2
}

// Spread returns how far apart the smallest and the largest sample are, as a
// share of the median; 0 where that is not known.
func Spread(samples []float64) float64 {
	m := Median(samples)
	if len(samples) == 0 || m == 0 {
		return 0
	}
	return (slices.Max(samples) - slices.Min(samples)) / m
}

// Slope returns the median of the slopes between all pairs of points
// (Theil-Sen): up to a quarter of the points may be wild without moving it
// much. It is 0 for fewer than two points. x must grow.
func Slope(x, y []float64) float64 {
	var slopes []float64
	for i := range x {
		for j := i + 1; j < len(x); j++ {
			if dx := x[j] - x[i]; dx > 0 {
				slopes = append(slopes, (y[j]-y[i])/dx)
			}
		}
	}
	if len(slopes) == 0 {
		return 0
	}
	return Median(slopes)
}
