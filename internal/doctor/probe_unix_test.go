//go:build unix

package doctor

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestProbesOfBrokenServers has a server for each way to be broken, none of
// which an everline runs. That each failure names a remedy is checked by examine.
func TestProbesOfBrokenServers(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("\x7fELF"), 0o700); err != nil {
		t.Fatal(err)
	}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var code int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &code); err == nil {
			w.WriteHeader(code)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<html>")
	}))
	t.Cleanup(site.Close) // after the subtests
	for name, c := range map[string]struct{ entry, remedy string }{
		"exit 1":  {`"command": "sh", "args": ["-c", "exit 1"]`, "run it by hand and read what it says: sh -c 'exit 1'"},
		"exit 0":  {`"command": "true"`, "run it by hand"},
		"cat":     {`"command": "cat"`, "run it by hand"},
		"format":  {`"command": "` + broken + `"`, "install it anew"},
		"silence": {`"command": "sleep", "args": ["60"]`, "startupTimeout"},
		"noise":   {`"command": "sh", "args": ["-c", "echo hello; exec sleep 60"]`, noiseRemedy},
		"401":     {`"url": "` + site.URL + `/401"`, "headers"},
		"403":     {`"url": "` + site.URL + `/403"`, `"headers"`},
		"404":     {`"url": "` + site.URL + `/404"`, `path in "url"`},
		"500":     {`"url": "` + site.URL + `/500"`, "own log"},
		"html":    {`"url": "` + site.URL + `/"`, "does not speak MCP"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := parse(t, `{"mcpServers": {"a": {`+c.entry+`}}}`)
			got, failed := examine(t, Options{Config: cfg, Server: "a", Env: os.LookupEnv, Timeout: 5 * time.Second})
			if f := got["a/handshake"]; !failed || f.Verdict != Fail || !strings.Contains(f.Remedy, c.remedy) {
				t.Errorf("%+v", f)
			}
			if f, told := got["a/noise"]; told != (name == "noise") {
				t.Errorf("noise: %+v", f)
			}
		})
	}
}
