package admin

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/everline/everline/internal/auth"
	"github.com/everline/everline/internal/mcptest/authserver"
)

// Who accepts events hears of a login what a person has to do, and how it ends.
func TestLoginAsEvents(t *testing.T) {
	for _, approves := range []bool{true, false} {
		site, server := httptest.NewUnstartedServer(nil), httptest.NewUnstartedServer(nil)
		script := authserver.Script{}
		if !approves {
			script.Authorize = func(url.Values) string { return "access_denied" }
		}
		issuer := authserver.New("http://"+site.Listener.Addr().String(), script)
		site.Config.Handler = issuer
		server.Config.Handler = authserver.NewResource("http://"+server.Listener.Addr().String()+"/mcp", issuer)
		for _, s := range []*httptest.Server{site, server} {
			s.Start()
			defer s.Close()
		}
		m := auth.New(auth.Options{})
		defer m.Close()
		m.Source(auth.Spec{Server: "notes", URL: server.URL + "/mcp"})
		l, err := m.Login(t.Context(), "notes", auth.LoginOptions{})
		if err != nil {
			t.Fatal(err)
		}
		a := New(Options{Hub: newFake(t), Journal: NewJournal(), StateDir: t.TempDir()})
		a.begun.add(l, "notes")
		api := httptest.NewServer(a.Handler())
		defer api.Close()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, api.URL+"/v1/logins/"+l.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "text/event-stream")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		next := func() string {
			text := ""
			for lines.Scan() && lines.Text() != "" {
				text += lines.Text() + "\n"
			}
			return text
		}
		if got := next(); !strings.HasPrefix(got, "event: waiting\ndata: {") || !strings.Contains(got, l.ID) || !strings.Contains(got, site.URL) {
			t.Errorf("it begins with %q", got)
		}
		page, err := http.Get(l.URL())
		if err != nil {
			t.Fatal(err)
		}
		_ = page.Body.Close()
		want := "event: ended\ndata: {}\n"
		if !approves {
			want = "event: failed\ndata: {"
		}
		if got := next(); !strings.HasPrefix(got, want) || !approves && !strings.Contains(got, "access_denied") {
			t.Errorf("it ends with %q, want %q", got, want)
		}
		if lines.Scan() {
			t.Errorf("more comes: %q", lines.Text())
		}
	}
}
