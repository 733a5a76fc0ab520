package demo

import (
	"bufio"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// outcome is what a client learned about one call.
type outcome uint8

const (
	done    outcome = iota // a result
	unknown                // "may have run": true only of a call that was cut in the middle
	failed                 // anything else
)

// A Report is what the clients saw. Times are milliseconds.
type Report struct {
	Calls          int     `json:"calls"`          // tools/call requests that have ended
	Answered       int     `json:"answered"`       // those with a result, or with the true answer that their outcome is unknown
	OutcomeUnknown int     `json:"outcomeUnknown"` // the latter: calls of a tool that must not run twice, cut in the middle
	Failed         int     `json:"failed"`         // the rest
	ExecutedTwice  int     `json:"executedTwice"`  // calls of such a tool that ran more than once
	Untrue         int     `json:"untrue"`         // calls answered with a result that had not run
	Lists          int     `json:"lists"`
	ShortLists     int     `json:"shortLists"` // tools/list answers that failed or lacked a tool
	Restarts       int     `json:"restarts"`   // servers killed or restarted
	RecoveryMsP50  float64 `json:"recoveryMsP50"`
	RecoveryMsMax  float64 `json:"recoveryMsMax"`
	ChildMsP50     float64 `json:"childRecoveryMsP50"` // of the stdio server alone
	ChildMsMax     float64 `json:"childRecoveryMsMax"`
	StartMsP50     float64 `json:"serverStartMsP50"` // what the stdio server itself needs to start, without everline and under the same load
	StartMsMax     float64 `json:"serverStartMsMax"`
	Seconds        float64 `json:"seconds"`
}

// OK reports whether everything that must be zero is zero.
func (r Report) OK() bool {
	return r.Failed == 0 && r.ExecutedTwice == 0 && r.ShortLists == 0 && r.Untrue == 0
}

// A tally collects what happened.
type tally struct {
	mu       sync.Mutex // guards the rest
	r        Report
	begun    time.Time
	recovery []time.Duration // of both servers
	child    []time.Duration // of the stdio server
	starts   []time.Duration // of the stdio server, without everline
	paid     []string        // ids of pay calls that were answered with a result
}

func (t *tally) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun = time.Now()
}

func (t *tally) started(took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.starts = append(t.starts, took)
}

func (t *tally) called(tool, id string, o outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.r.Calls++
	switch {
	case o == failed, o == unknown && tool != "pay": // what may be repeated has no excuse
		t.r.Failed++
		return
	case o == unknown:
		t.r.OutcomeUnknown++
	case tool == "pay":
		t.paid = append(t.paid, id)
	}
	t.r.Answered++
}

func (t *tally) listed(complete bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.r.Lists++
	if !complete {
		t.r.ShortLists++
	}
}

func (t *tally) recovered(after time.Duration, child bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.r.Restarts++
	t.recovery = append(t.recovery, after)
	if child {
		t.child = append(t.child, after)
	}
}

func (t *tally) report() Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.r
	r.Seconds = time.Since(t.begun).Seconds()
	r.RecoveryMsP50, r.RecoveryMsMax = spread(t.recovery)
	r.ChildMsP50, r.ChildMsMax = spread(t.child)
	r.StartMsP50, r.StartMsMax = spread(t.starts)
	return r
}

// spread returns the median and the largest in milliseconds; 0 of nothing.
func spread(times []time.Duration) (median, most float64) {
	if len(times) == 0 {
		return 0, 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return ms(sorted[len(sorted)/2]), ms(sorted[len(sorted)-1])
}

// check reads the ledger: how often did each call really run.
func (t *tally) check(ledger string) error {
	f, err := os.Open(ledger)
	if err != nil {
		return err
	}
	defer f.Close()
	ran := map[string]int{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if id, ok := strings.CutPrefix(lines.Text(), "pay "); ok {
			ran[id]++
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range ran {
		if n > 1 {
			t.r.ExecutedTwice++
		}
	}
	for _, id := range t.paid {
		if ran[id] == 0 {
			t.r.Untrue++
		}
	}
	return lines.Err()
}

func ms(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}
