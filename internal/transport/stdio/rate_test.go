package stdio

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestByteRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r byteRate
		for range 600 { // a minute of 1000 bytes in each tenth of a second
			r.add(1000)
			time.Sleep(100 * time.Millisecond)
		}
		if total, rate := r.now(); total != 600_000 || rate < 9_500 || rate > 10_500 {
			t.Errorf("%d bytes, %.0f a second", total, rate)
		}
		time.Sleep(time.Minute)
		if total, rate := r.now(); total != 600_000 || rate > 1 {
			t.Errorf("after a minute of silence: %d bytes, %.3f a second", total, rate)
		}
	})
}
