package systest

import (
	"context"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/door"
	"github.com/everline/everline/internal/mcptest"
	"github.com/everline/everline/internal/meter"
)

// A call that comes before anybody has seen what its server offers is counted for that
// server, with all that it has waited; one of a name that no server has, for none.
func TestCallsOfAnUnknownCatalogAreCounted(t *testing.T) {
	const delay = 300 * time.Millisecond
	var facts []event.CallFacts
	note := func(f event.CallFacts) { facts = append(facts, f) }
	hub := open(t, servers{
		"late":  with(child(mcptest.Config{StartDelay: delay}), map[string]any{"startupTimeout": "1m"}),
		"never": with(child(mcptest.Config{Deaf: true}), map[string]any{"startupTimeout": "1m"}),
		"off":   with(child(mcptest.Config{}), map[string]any{"disabled": true}),
	}, everline.Options{})
	do := func(limit time.Duration, name string) error {
		ctx, cancel := context.WithTimeout(within(t), limit)
		defer cancel()
		_, err := hub.Do(ctx, &everline.Call{Method: "tools/call", Name: name, Params: []byte(`{"name":"` + name + `","arguments":{}}`), Observe: note})
		return err
	}
	if err := do(soon, "late__echo"); err != nil {
		t.Fatal(err)
	}
	if err := do(100*time.Millisecond, "never__echo"); fault.KindOf(err) != fault.Deadline {
		t.Errorf("%v", err)
	}
	if err := do(soon, "off__echo"); fault.KindOf(err) != fault.Disabled {
		t.Errorf("%v", err)
	}
	if err := do(soon, "nothing"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("%v", err)
	}
	counts := door.Counts(hub)
	for server, result := range map[string]event.CallResult{
		"late": event.CallAnswered, "never": event.CallNotSent, "off": event.CallRefused, "": event.CallRefused,
	} {
		var want [event.CallResults]uint64
		want[result] = 1
		if got := counts[server].Calls[0]; got != want {
			t.Errorf("%q: %v, want one %s", server, got, result)
		}
	}
	if n := counts["late"]; n.Saved[event.ByParking] != 1 || n.Parked[meter.Served] != 1 {
		t.Errorf("saved %v, parked %v", n.Saved, n.Parked)
	}
	if len(facts) != 4 || facts[0].Server != "late" || facts[0].Waited < delay/2 || facts[0].Took < facts[0].Waited ||
		facts[1].Server != "never" || facts[1].Waited == 0 || facts[2].Server != "off" || facts[3].Server != "" {
		t.Errorf("%+v", facts)
	}
}
