package observe

import (
	"fmt"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/everline/everline"
	"github.com/everline/everline/internal/meter"
	"github.com/everline/everline/internal/usage"
)

// What one scrape costs, the look at the machine's processes included: where others are
// at work, the CPU time is what counts. At one scrape a second 10 ms are 1 % of a core.
func BenchmarkScrape(b *testing.B) {
	for _, servers := range []int{10, 1000} {
		b.Run(fmt.Sprint(servers), func(b *testing.B) {
			s := scripted()
			var all []everline.Status
			counts := map[string]meter.Counts{"": {}}
			for i := range servers {
				st := s.Status()[0]
				st.Name = fmt.Sprint(i)
				all, counts[st.Name] = append(all, st), s.Counts()["github"]
			}
			s.Status, s.Counts, s.Trees = func() []everline.Status { return all }, func() map[string]meter.Counts { return counts }, usage.Read
			h := Handler(Registry(s))
			before, n := usage.Read().Of(os.Getpid()).CPU, 0
			for b.Loop() {
				n++
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
				b.ReportMetric(float64(w.Body.Len()), "bytes")
			}
			b.ReportMetric(float64((usage.Read().Of(os.Getpid()).CPU-before).Microseconds())/float64(n), "cpu-us/op")
		})
	}
}
