package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/access/entrance"
	"github.com/everline/everline/internal/gateway"
	"github.com/everline/everline/internal/meter"
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
		d := &daemon{hub: hub, clients: meter.NewEndpoint(), parts: parts{Options: Options{Log: slog.New(slog.DiscardHandler)}, local: c.local, entrance: entrance.New(entrance.Options{Log: slog.New(slog.DiscardHandler)})}}
		d.parts.entrance.Use(cfg)
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

// Who may not see all servers gets no metrics, and is told of no server by /readyz.
func TestWhoSeesAPartIsToldOfNoServer(t *testing.T) {
	cfg := config.New()
	gone := config.NewServer("gone")
	gone.Command, gone.Required = filepath.Join(t.TempDir(), "none"), true
	cfg.Servers = []config.Server{gone}
	cfg.Access.Demanded, cfg.Access.MTLS = true, config.CertCN
	cfg.Policies = []config.Policy{{Name: "some", Servers: []string{"other"}}, {Name: "reads", ReadOnly: true}, {Name: "limited", Sessions: 1}}
	grants := map[string]string{"a": "all", "s": "some", "r": "reads", "l": "limited", "n": "none"}
	for name, policy := range grants {
		cfg.Grants = append(cfg.Grants, config.Grant{Label: "mtls:" + name, Policies: []string{policy}})
	}
	e := entrance.New(entrance.Options{Log: slog.New(slog.DiscardHandler)})
	e.Use(cfg)
	d, err := start(t.Context(), parts{Options: quiet, found: Loaded{Config: cfg}, stateDir: t.TempDir(), gateway: gateway.Options{Entrance: e}, entrance: e})
	if err != nil {
		t.Fatal(err)
	}
	defer d.close(t.Context())
	h := d.endpoint()
	for name := range grants {
		ask := func(path string) (int, string) {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Host = "localhost"
			r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}}}}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code, w.Body.String()
		}
		whole := name == "a" || name == "l"
		for _, path := range []string{"/readyz", "/readyz?verbose", "/readyz?server=gone", "/readyz?server=nobody"} {
			code, body := ask(path)
			if strings.Contains(body, "gone") != (whole && !strings.Contains(path, "nobody")) || !whole && (code != 503 || body != `{"status":"not ready"}`+"\n") {
				t.Errorf("%s of %s: %d %s", path, name, code, body)
			}
		}
		code, body := ask("/metrics")
		if whole && code != 200 || !whole && (code != 403 || strings.Contains(body, "gone")) {
			t.Errorf("/metrics of %s: %d", name, code)
		}
	}
}
