package lifecycle

import (
	"math"
	"testing"
	"time"
)

func TestDelay(t *testing.T) {
	p := DefaultPolicy()
	want := []time.Duration{0, 0, 1, 2, 4, 8, 16, 30, 30}
	for n, d := range want {
		if got := p.delay(n); got != d*time.Second {
			t.Errorf("after %d losses: %v, want %v", n, got, d*time.Second)
		}
	}
	if got := p.delay(math.MaxInt); got != p.MaxDelay {
		t.Errorf("after very many: %v", got)
	}
	p.MaxDelay = math.MaxInt64
	for n := range 200 {
		if p.delay(n+1) < p.delay(n) {
			t.Fatalf("after %d losses the delay shrinks: %v, %v", n, p.delay(n), p.delay(n+1))
		}
	}
	p.FirstDelay, p.MaxDelay = time.Minute, time.Second
	if got := p.delay(2); got != time.Second {
		t.Errorf("FirstDelay over MaxDelay: %v", got)
	}
}

// TestRunOfBadLuck counts the starts in a simulated hour of a server that
// never comes up, with the longest and the shortest draw of each delay.
func TestRunOfBadLuck(t *testing.T) {
	for name, c := range map[string]struct {
		draw  func(Arm) time.Duration
		least int
		most  int
	}{
		"longest":  {func(a Arm) time.Duration { return a.After }, 50, 50},
		"shortest": {func(a Arm) time.Duration { return a.Least }, 95, 95},
	} {
		if got := startsInAnHour(t, c.draw); got < c.least || got > c.most {
			t.Errorf("%s draws: %d starts", name, got)
		}
	}
}

func startsInAnHour(t *testing.T, draw func(Arm) time.Duration) int {
	w := newWorld(DefaultPolicy())
	var clock, lost time.Duration
	ev := Event(Want{Want: true, Spec: 1})
	for starts := 0; ; {
		fx, err := w.step(ev)
		if err != nil {
			t.Fatal(err)
		}
		ev = nil
		for _, f := range fx {
			switch f := f.(type) {
			case Start:
				if starts++; starts == 1 {
					lost = clock
				}
				ev = Failed{Gen: f.Gen, Down: clock - lost}
			case Arm:
				clock += draw(f)
				ev = RetryDue{f.Gen}
			}
		}
		if ev == nil || clock > time.Hour || starts > 1000 {
			return starts
		}
	}
}

// TestSeen fixes the words against the table of the documentation.
func TestSeen(t *testing.T) {
	for word, states := range map[string][]State{
		"disabled":      {{}, {WasReady: true}},
		"idle":          {{Want: true, Next: NextCall}},
		"connecting":    {{Want: true, Trying: 1}, {Want: true, Next: NextSlotFree}},
		"connected":     {{Want: true, Serving: 1}},
		"reconnecting":  {{Want: true, Trying: 1, WasReady: true}, {Want: true, Next: NextSlotFree, WasReady: true}},
		"disconnected":  {{Want: true, Next: NextTimer}, {Want: true, Next: NextStopped, Stopped: Ended}},
		"disabling":     {{Closing: [2]uint64{1}}, {Closing: [2]uint64{1}, WasReady: true}},
		"auth_required": {{Want: true, Next: NextStopped, Stopped: Auth}},
		"misconfigured": {{Want: true, Next: NextStopped, Stopped: Config}, {Want: true, Next: NextStopped, Stopped: Missing}},
		"failed":        {{Want: true, Next: NextStopped, Stopped: Budget}},
	} {
		for _, s := range states {
			if got := s.Seen(); got != word {
				t.Errorf("%v is seen as %q, want %q", s, got, word)
			}
		}
	}
}

func TestNames(t *testing.T) {
	for want, got := range map[string]string{
		"Draining": Draining.String(), "ended": Ended.String(), "session": SessionEnd.String(),
		"stopped": NextStopped.String(), "stable": StableTimer.String(), "on-failure": OnFailure.String(),
		"unknown": Phase(200).String(),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
