package sessions

import (
	"crypto/sha256"
	"errors"
	"time"

	"github.com/everline/everline/fault"
)

// A Result is the outcome of a call that its client may still ask for.
type Result struct {
	Key   string            // under which the client asks
	Sum   [sha256.Size]byte // tells the call from others under the same key
	Until time.Time
	Raw   []byte       // nil if the call failed
	Fault *fault.Fault // nil if it did not
}

// kept is a Result as it lies on the disk; of a fault it has what clients see.
type kept struct {
	Key   string
	Sum   [sha256.Size]byte
	Until time.Time
	Raw   []byte

	Failed              bool
	Kind, Outcome       string
	Op, Server, State   string
	Gen                 uint64
	RetryAfter          time.Duration
	Cause, Remedy, Exit string
	RPC                 *fault.RPCError
}

// SaveResults keeps the outcomes of an endpoint for the next everline. It takes
// the place of what was kept before.
func (s *Store) SaveResults(endpoint string, all []Result) error {
	if len(all) == 0 {
		return nil
	}
	list := make([]kept, len(all))
	for i, r := range all {
		list[i] = kept{Key: r.Key, Sum: r.Sum, Until: r.Until.Round(0), Raw: r.Raw}
		if f := r.Fault; f != nil {
			k := &list[i]
			k.Failed, k.Kind, k.Outcome, k.Op, k.Server, k.State, k.Gen = true, f.Kind.String(), f.Outcome.String(), f.Op, f.Server, f.State, f.Gen
			k.RetryAfter, k.Remedy, k.Exit, k.RPC = f.RetryAfter, f.Remedy, f.Exit, f.RPC
			if f.Err != nil {
				k.Cause = f.Err.Error()
			}
		}
	}
	return s.save(s.resultsOf(endpoint), list, "outcomes")
}

// TakeResults returns what the everline before this one has kept for an endpoint,
// and is not over by now. It is there once.
func (s *Store) TakeResults(endpoint string) []Result {
	list := take[kept](s, s.resultsOf(endpoint), "outcomes that were kept for clients")
	var all []Result
	for _, k := range list {
		r := Result{Key: k.Key, Sum: k.Sum, Until: k.Until, Raw: k.Raw}
		if k.Failed {
			r.Fault = k.fault()
		}
		if time.Now().Before(r.Until) {
			all = append(all, r)
		}
	}
	return all
}

func (k *kept) fault() *fault.Fault {
	f := &fault.Fault{
		Kind: fault.KindNamed(k.Kind), Op: k.Op, Server: k.Server, State: k.State, Gen: k.Gen,
		RetryAfter: k.RetryAfter, Remedy: k.Remedy, Exit: k.Exit, RPC: k.RPC,
	}
	for _, outcome := range []fault.Outcome{fault.NotSent, fault.Answered} {
		if outcome.String() == k.Outcome {
			f.Outcome = outcome
		}
	}
	if k.Cause != "" {
		f.Err = errors.New(k.Cause)
	}
	return f
}

func (s *Store) resultsOf(endpoint string) string { return s.fileOf("results-", endpoint) }
