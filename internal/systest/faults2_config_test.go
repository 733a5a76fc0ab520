package systest

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcptest"
)

// hubOf opens a hub for the text of a file, and closes it with the test.
func hubOf(t *testing.T, text string, vars map[string]string) *everline.Hub {
	t.Helper()
	cfg, err := config.Parse(filepath.Join(t.TempDir(), "everline.json"), []byte(text), func(name string) (string, bool) { v, ok := vars[name]; return v, ok })
	if err != nil {
		t.Fatal(err)
	}
	hub, err := everline.Open(t.Context(), cfg, everline.Options{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hub.Close(context.Background()) })
	return hub
}

func settled(t *testing.T, hub *everline.Hub, server string) everline.Status {
	t.Helper()
	st, _ := hub.Await(within(t), server, 0) // the status says what came of it
	return st
}

// TestFaultS13 has a server look at what its URL became on the wire.
func TestFaultS13(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	inner := mcptest.New(mcptest.Config{}).Handler()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		lines = append(lines, r.RequestURI)
		bad := r.URL.Query().Get("key") != "a b#c&d=e%41" || r.URL.Query().Get("z") != "1"
		mu.Unlock()
		if bad {
			http.Error(w, "wrong key", http.StatusBadRequest)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(site.Close)
	hub := hubOf(t, `{"mcpServers": {"a": {"url": "`+site.URL+`/mcp?key=${KEY}&z=1"}}}`, map[string]string{"KEY": "a b#c&d=e%41"})
	if st := settled(t, hub, "a"); st.State != "connected" {
		mu.Lock()
		defer mu.Unlock()
		t.Errorf("%s: %v, asked for %q", st.State, st.Cause, lines)
	}
}

// TestFaultS9 has a server that compresses whatever is asked for.
func TestFaultS9(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		coding := "br"
		if strings.Contains(r.URL.Path, "asked") { // only where somebody else asked for it
			coding = ""
			if strings.Contains(r.Header.Get("Accept-Encoding"), "br") {
				coding = "br"
			}
		}
		if coding == "" {
			http.Error(w, "plain words", http.StatusTeapot)
			return
		}
		w.Header().Set("Content-Encoding", coding)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("\x8b\x00\x80\xff junk"))
	}))
	t.Cleanup(site.Close)
	const once = `"everline": {"retry": {"restart": "never"}}`
	hub := hubOf(t, `{"mcpServers": {"asked": {"url": "`+site.URL+`/asked", "headers": {"Accept-Encoding": "gzip, deflate, br"}, `+once+`}, "always": {"url": "`+site.URL+`/always", `+once+`}}}`, nil)
	for server, words := range map[string]string{"asked": "plain words", "always": `the coding "br"`} {
		st := settled(t, hub, server)
		if st.Cause == nil || !strings.Contains(st.Cause.Error(), words) || !utf8.ValidString(st.Cause.Error()) || strings.ContainsAny(st.Cause.Error(), "\x00\ufffd") {
			t.Errorf("%s: %s, %v", server, st.State, st.Cause)
		}
	}
	if w := hub.Config().Warnings; len(w) != 1 || w[0].Server != "asked" {
		t.Errorf("warnings %v", w)
	}
}

// TestFaultS10 has a value that no server can get: nothing is tried.
func TestFaultS10(t *testing.T) {
	asked := make(chan struct{}, 1)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(site.Close)
	hub := hubOf(t, `{"mcpServers": {"a": {"url": "`+site.URL+`", "headers": {"X": "a\u0007b"}}, "b": {"url": "`+site.URL+`", "headers": {"X": "${V}"}}}}`, map[string]string{"V": "a\nb"})
	for _, server := range []string{"a", "b"} {
		if st := settled(t, hub, server); st.State != "misconfigured" || st.Cause == nil || st.Cause.Kind != fault.Invalid || !strings.Contains(st.Cause.Error(), "everline.json:1:") || !st.Next.IsZero() {
			t.Errorf("%s: %s, %v, next attempt %v", server, st.State, st.Cause, st.Next)
		}
	}
	select {
	case <-asked:
		t.Error("the server was asked")
	default:
	}
}

// TestFaultS6 has servers whose names are any text, and calls a tool of each.
func TestFaultS6(t *testing.T) {
	site := mcptest.Web(t, mcptest.New(mcptest.Config{}))
	names := []string{"github.com/acme/notes-mcp", "github_com_acme_notes_mcp", "github.com_acme/notes-mcp", "..", "a b", "日本", "a\x01b\n", "-x", strings.Repeat("n", 300), strings.Repeat("n", 301), "_hidden", "x-ray"}
	all := map[string]any{"": web(site)}
	for _, name := range names {
		all[name] = web(site)
	}
	text, err := json.Marshal(map[string]any{"mcpServers": all})
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{}
	for round := range 2 {
		hub := hubOf(t, string(text), nil)
		for _, name := range names {
			if st := settled(t, hub, name); st.State != "connected" {
				t.Errorf("%q: %s, %v", name, st.State, st.Cause)
			}
		}
		if st, ok := hub.Server(""); !ok || st.State != "misconfigured" || !strings.Contains(st.Cause.Error(), "everline.json:1:") {
			t.Errorf("the nameless one: %+v", st)
		}
		safe, taken := regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`), map[string]bool{}
		for l := range hub.Catalog().Items(everline.Tools) {
			if !safe.MatchString(l.Exposed) || taken[l.Exposed] {
				t.Errorf("%q has a tool %q", l.Server, l.Exposed)
			}
			taken[l.Exposed] = true
			if l.Item.Name != "echo" {
				continue
			}
			if _, err := call(t, hub, l.Exposed, `{"a":1}`); err != nil {
				t.Errorf("%q: %v", l.Server, err)
			}
			if was := labels[l.Server]; round > 0 && was != l.Exposed {
				t.Errorf("%q had %s, and has %s", l.Server, was, l.Exposed)
			}
			labels[l.Server] = l.Exposed
		}
	}
	if len(labels) != len(names) {
		t.Errorf("%d of %d servers", len(labels), len(names))
	}
}
