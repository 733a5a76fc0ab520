package transport

import "testing"

// TestFaultsOff is about the injector that nobody has turned on: nothing is
// allocated for it, and a nil one is off.
func TestFaultsOff(t *testing.T) {
	var none *Injector
	off := &Injector{}
	if none.Now() != nil || none.Lasting(BreakSlow) != nil || off.Active() {
		t.Error("an injector that nobody turned on is on")
	}
	if n := testing.AllocsPerRun(1000, func() {
		if none.Now() != nil || off.Lasting(BreakHang) != nil {
			t.Fail()
		}
	}); n != 0 {
		t.Errorf("%v allocations for a look at it", n)
	}
	none.Join(nil)
	none.Leave(nil)
}

func BenchmarkFaultsOff(b *testing.B) {
	off := &Injector{}
	b.ReportAllocs()
	for b.Loop() {
		if off.Lasting(BreakSlow) != nil {
			b.Fail()
		}
	}
}

func TestFaultsWords(t *testing.T) {
	for i, word := range Breakages() {
		if b, ok := ParseBreakage(word); !ok || b != Breakage(i) || b.String() != word {
			t.Errorf("%q is %v, %v", word, b, ok)
		}
	}
	if _, ok := ParseBreakage("explode"); ok {
		t.Error("explode is a breakage")
	}
}
