package gateway

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/mcptest"
)

// times are the durations in a text.
var times = regexp.MustCompile(`(\d+h)?(\d+m)?\d[\d.]*(ms|s)\b`)

// TestFaultW11: what a failed call says has one time in it, the one at which
// sending it again can help, and retryAfterMs is the same one.
func TestFaultW11(t *testing.T) {
	for name, retry := range map[string]func(*config.Retry){
		"between fast attempts": func(r *config.Retry) { r.FirstDelay, r.MaxDelay = time.Hour, time.Hour },
		"between slow ones": func(r *config.Retry) {
			r.FastFor, r.FirstDelay, r.SlowProbe, r.WakeEvery = time.Millisecond, time.Millisecond, time.Hour, 30*time.Second
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := mcptest.New(mcptest.Config{})
			t.Cleanup(s.Close)
			var broken atomic.Bool
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if broken.Load() {
					http.Error(w, "away", http.StatusBadGateway)
					return
				}
				s.Handler().ServeHTTP(w, r)
			}))
			t.Cleanup(web.Close)
			c := config.NewServer("a")
			c.Transport, c.URL, c.Retry.Strikes = "http", web.URL+"/mcp", 1
			retry(&c.Retry)
			front := wholeOf(t, c)
			broken.Store(true)
			for range 3 {
				r := front.modern("1", "tools/call", "echo", `,"name":"echo","arguments":{}`)
				var got struct {
					Result struct {
						Content []struct{ Text string }
						Meta    map[string]struct {
							RetryAfterMs int64
							Cause        string
						} `json:"_meta"`
					}
				}
				if err := json.Unmarshal([]byte(r.body), &got); err != nil || len(got.Result.Content) != 1 {
					t.Fatalf("%v: %s", err, r.body)
				}
				text, out := got.Result.Content[0].Text, got.Result.Meta[mcp.MetaOutcome]
				said := times.FindAllString(text, -1)
				if len(said) != 1 || times.MatchString(out.Cause) {
					t.Fatalf("%d times in %q, cause %q", len(said), text, out.Cause)
				}
				d, err := time.ParseDuration(said[0])
				if diff := d - time.Duration(out.RetryAfterMs)*time.Millisecond; err != nil || diff.Abs() > 100*time.Millisecond {
					t.Errorf("%q, and retryAfterMs is %d", text, out.RetryAfterMs)
				}
			}
		})
	}
}
