package upstream

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/transport"
)

// TestPhases is a handshake in exact times: a process that needs 300 ms until
// it runs, is silent on the first probe for 2 s, is started again, and answers
// initialize on the second try.
func TestPhases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p phases
		wait := func(d time.Duration) time.Time {
			began := time.Now()
			time.Sleep(d)
			return began
		}
		start := time.Now()
		p.open(transport.Stdio, wait(300*time.Millisecond))
		silence := fault.New(fault.Deadline, "", "silence")
		p.answer(PhaseEra, wait(2*time.Second), silence)
		p.open(transport.Stdio, wait(200*time.Millisecond))
		p.answer(PhaseInitialize, wait(40*time.Millisecond), nil)
		p.answer(PhaseInitialize, wait(3*time.Millisecond), nil)
		want := []Phase{
			{PhaseSpawn, start, 500 * time.Millisecond, nil},
			{PhaseEra, start.Add(300 * time.Millisecond), 2 * time.Second, silence},
			{PhaseFirstByte, start.Add(2500 * time.Millisecond), 40 * time.Millisecond, nil},
			{PhaseInitialize, start.Add(2500 * time.Millisecond), 43 * time.Millisecond, nil},
		}
		if len(p.all) != len(want) {
			t.Fatalf("%+v", p.all)
		}
		for i := range want {
			if p.all[i] != want[i] {
				t.Errorf("phase %d: %+v, want %+v", i, p.all[i], want[i])
			}
		}
	})
}

// TestPhasesOfRealHandshakes names what each way to a server goes through.
func TestPhasesOfRealHandshakes(t *testing.T) {
	names := func(u *Upstream) (all string) {
		for _, p := range u.Info().Phases {
			all += p.Name + ";"
		}
		return all
	}
	opts, _ := options(childServer(mcptest.Config{}))
	u := start(t, opts)
	if got := names(u); got != "spawn;first byte;era;initialize;" {
		t.Errorf("a process: %s", got)
	}
	opts.Era = u.Info().Era
	if got := names(start(t, opts)); got != "spawn;first byte;initialize;" {
		t.Errorf("a process of a known era: %s", got)
	}
	opts, _ = options(overWeb(t, mcptest.New(mcptest.Config{Era: mcptest.Modern})))
	if got := names(start(t, opts)); got != "first byte;era;" {
		t.Errorf("a modern URL: %s", got)
	}
}
