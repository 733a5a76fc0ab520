package systest

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/everline/everline/fault"
)

// A deed is one call of a history: what was asked, when, and what came of it.
// The server behind it keeps a ledger: "bump" appends a line and returns how
// many there are, "peek" returns how many there are.
type deed struct {
	client     int
	id         string // of its own
	peek       bool
	begun, end time.Duration // since the start of the round
	limit      time.Duration // how long it could take
	answers    int           // how often it was answered
	outcome    string        // "ok", "not_sent", "unknown", "answered"
	kind       fault.Kind    // valid unless ok
	echo       string        // the id in the result; valid if ok
	value      int           // valid if ok
	ran        int           // how often it is in the ledger
	nobody     bool          // it is made without a Client
	reached    []int         // the clients that were asked what the server asked for it
}

func (d *deed) String() string {
	return fmt.Sprintf("client %d %s peek=%v %s..%s %s (%s) echo=%s value=%d ran=%d",
		d.client, d.id, d.peek, d.begun, d.end, d.outcome, d.kind, d.echo, d.value, d.ran)
}

// ledgerModel is the ledger as one counter. An answered bump ran once and
// returned the value that it made; one that was not sent did not run; of one
// whose outcome is unknown the ledger tells whether it ran, and it ran at most
// once, at any time after it was called.
var ledgerModel = porcupine.Model{
	Init: func() any { return 0 },
	Step: func(state, input, _ any) (bool, any) {
		n, d := state.(int), input.(*deed)
		if d.outcome == "ok" && d.echo != d.id {
			return false, n
		}
		if d.peek {
			return d.outcome != "ok" || d.value == n, n
		}
		switch d.outcome {
		case "ok":
			return d.ran == 1 && d.value == n+1, n + 1
		case "not_sent":
			return d.ran == 0, n
		default:
			return d.ran <= 1, n + d.ran
		}
	},
	DescribeOperation: func(input, _ any) string { return input.(*deed).String() },
}

// violations are what is wrong with a history: P3 and P5 by the model, P4 by
// the clock, P10 by who was asked. slack is what a busy machine may add to a
// deadline.
func violations(history []*deed, slack time.Duration) []string {
	var bad []string
	ops := make([]porcupine.Operation, 0, len(history))
	for _, d := range history {
		if d.answers != 1 {
			bad = append(bad, fmt.Sprintf("P4: answered %d times: %s", d.answers, d))
		}
		if d.end-d.begun > d.limit+slack {
			bad = append(bad, fmt.Sprintf("P4: answered %s after its deadline: %s", d.end-d.begun-d.limit, d))
		}
		for _, client := range d.reached {
			if d.nobody || client != d.client {
				bad = append(bad, fmt.Sprintf("P10: client %d was asked for %s", client, d))
			}
		}
		op := porcupine.Operation{ClientId: d.client, Input: d, Call: int64(d.begun), Return: int64(d.end)}
		if d.outcome != "ok" && d.outcome != "not_sent" {
			op.Return = math.MaxInt64 // it may run after it was given up
		}
		ops = append(ops, op)
	}
	switch porcupine.CheckOperationsTimeout(ledgerModel, ops, 20*time.Second) {
	case porcupine.Illegal:
		bad = append(bad, "P3 or P5: no order of the calls explains the answers\n"+suspects(history))
	case porcupine.Unknown:
		bad = append(bad, "the checker found no verdict in time")
	default: // there is an order
	}
	return bad
}

// suspects are the deeds that are wrong by themselves, or all if none is.
func suspects(history []*deed) string {
	var some, all strings.Builder
	for _, d := range history {
		fmt.Fprintln(&all, d)
		alone := *d
		if ok, _ := ledgerModel.Step(d.value-1, &alone, nil); !ok && (!d.peek || d.echo != d.id) {
			fmt.Fprintln(&some, d)
		}
	}
	if some.Len() > 0 {
		return some.String()
	}
	return all.String()
}
