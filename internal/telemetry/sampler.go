package telemetry

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/everline/everline/internal/tracing"
)

// usualRatio is how many of the requests are sampled whose callers do not decide,
// where the environment does not say.
const usualRatio = 0.05

// A sampler decides as the SDK's does that has the same name. It is asked about each
// request, and costs a twentieth of it.
type sampler struct {
	byCaller bool   // who has a caller is sampled if that is
	below    uint64 // of all others those are whose trace ids are: 1<<63 for all
	share    bool   // it takes a part: what is of interest may be kept beside it
}

// samplerOf is the sampler of the environment.
func samplerOf(getenv func(string) string) (sampler, error) {
	name := strings.ToLower(strings.TrimSpace(getenv("OTEL_TRACES_SAMPLER")))
	if name == "" {
		return sampler{byCaller: true, below: shareOf(usualRatio), share: true}, nil
	}
	kind, byCaller := strings.CutPrefix(name, "parentbased_")
	switch kind {
	case "always_on":
		return sampler{byCaller: byCaller, below: shareOf(1)}, nil
	case "always_off":
		return sampler{byCaller: byCaller}, nil
	case "traceidratio":
		ratio := 1.0
		if arg := strings.TrimSpace(getenv("OTEL_TRACES_SAMPLER_ARG")); arg != "" {
			var err error
			if ratio, err = strconv.ParseFloat(arg, 64); err != nil || !(0 <= ratio && ratio <= 1) {
				return sampler{}, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG: %q is no number from 0 to 1", arg)
			}
		}
		return sampler{byCaller: byCaller, below: shareOf(ratio), share: true}, nil
	default:
		return sampler{}, fmt.Errorf("OTEL_TRACES_SAMPLER: %q is none of always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off, parentbased_traceidratio", name)
	}
}

// shareOf is what the ids of a share of all traces are below.
func shareOf(ratio float64) uint64 { return uint64(ratio*math.MaxInt64) + uint64(ratio) }

// takes tells whether a request is sampled in whose trace id the last 8 bytes are low.
func (s *sampler) takes(low uint64, caller *tracing.Context) bool {
	if s.byCaller && caller.Valid() {
		return caller.Sampled()
	}
	return low>>1 < s.below
}

// Begin implements tracing.Recorder. It decides about most requests before anything is
// made of them but a number.
func (t *Telemetry) Begin(caller tracing.Context, came time.Time) (tr *tracing.Trace, chance bool) {
	root := !caller.Valid()
	low := binary.BigEndian.Uint64(caller.Trace[8:])
	if root {
		low = rand.Uint64()
	}
	if !t.sampler.takes(low, &caller) {
		return nil, t.sampler.share && root
	}
	own := caller.Child()
	if root {
		binary.BigEndian.PutUint64(own.Trace[8:], low)
	}
	own.Sample()
	return tracing.New(own, caller, came), false
}
