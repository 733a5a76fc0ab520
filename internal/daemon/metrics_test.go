package daemon

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
)

// Who gets the metrics: this machine, or whoever has the token; nobody where they
// are off.
func TestWhoGetsMetrics(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		on      bool
		file    string
		local   bool
		sent    string
		status  int
		metrics bool
	}{
		{"this machine", true, "", true, "", 200, true},
		{"another machine", true, "", false, "", 403, false},
		{"off", false, "", true, "", 404, false},
		{"off, with the token", false, token, true, "Bearer s3cret", 404, false},
		{"with the token", true, token, false, "Bearer s3cret", 200, true},
		{"without the token", true, token, true, "", 401, false},
		{"with another", true, token, true, "Bearer s3cre", 401, false},
		{"no such file", true, token + "x", true, "Bearer ", 500, false},
	} {
		cfg := config.New()
		cfg.Metrics, cfg.MetricsTokenFile = c.on, c.file
		hub, err := everline.Open(t.Context(), cfg, everline.Options{})
		if err != nil {
			t.Fatal(err)
		}
		d := &daemon{hub: hub, parts: parts{Options: Options{Log: slog.New(slog.DiscardHandler)}, local: c.local}}
		d.scraped = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("everline_ready 1")) })
		r := httptest.NewRequest("GET", "/metrics", nil)
		if c.sent != "" {
			r.Header.Set("Authorization", c.sent)
		}
		w := httptest.NewRecorder()
		d.serveMetrics(w, r)
		if w.Code != c.status || strings.Contains(w.Body.String(), "everline_ready") != c.metrics {
			t.Errorf("%s: %d %s", c.name, w.Code, w.Body)
		}
		if err := hub.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
