package echo

import (
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/everline/everline/bench/internal/drive"
)

func TestStdio(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	b, err := newBrain(Options{Tools: 7, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	in := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":"w","method":"tools/call","params":{"name":"work","arguments":{"id":"x1","ms":1}}}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"h\u00e9 \"q\""}}}
{"jsonrpc":"2.0","id":3,"method":"server/discover"}
`)
	var out strings.Builder
	if err := b.serve(in, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"`,
		`{"jsonrpc":"2.0","id":"w","result":{"content":[{"type":"text","text":"x1"}]}}`,
		`{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"h\u00e9 \"q\""}]}}`,
		`{"jsonrpc":"2.0","id":3,"error":{"code":-32601`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is not in\n%s", want, out.String())
		}
	}
	if text, err := os.ReadFile(log); err != nil || string(text) != "x1\n" {
		t.Errorf("executions: %q %v", text, err)
	}
}

// The plain server over HTTP, at any path.
func TestHTTP(t *testing.T) {
	h, err := Handler(Options{Tools: 9})
	if err != nil {
		t.Fatal(err)
	}
	site := httptest.NewServer(h)
	defer site.Close()
	s, err := drive.Open(t.Context(), drive.NewHTTP(), site.URL+"/any/mcp")
	if err != nil {
		t.Fatal(err)
	}
	names, err := drive.Tools(t.Context(), s)
	if err != nil || len(names) != 9 {
		t.Fatal(names, err)
	}
	r, err := s.Call(t.Context(), "tools/call", drive.ToolCall("blob", `{"bytes":100000}`))
	if err != nil || drive.Holds("xxxx", 100000)(r) != nil || len(r) > 100100 {
		t.Errorf("%d bytes, %v", len(r), err)
	}
	resp, err := drive.NewHTTP().Post(site.URL+DropPath, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if _, err := s.Call(t.Context(), "ping", nil); !errors.Is(err, drive.ErrGone) {
		t.Errorf("after the sessions were forgotten: %v", err)
	}
}

func TestArgv(t *testing.T) {
	argv := Argv("exe", Options{Name: "s1", Make: "plain", Tools: 5})
	if !Is("exe", argv) || Is("other", argv) || Is("exe", []string{"exe", "rawproxy"}) {
		t.Errorf("%q", argv)
	}
	for _, a := range argv {
		if a == "" || strings.Contains(a, " ") {
			t.Errorf("%q does not survive a command that is one text", a)
		}
	}
}
