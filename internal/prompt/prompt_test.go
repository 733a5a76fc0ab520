package prompt

import (
	"strings"
	"testing"

	"github.com/everline/everline/config"
)

// typing makes an Asker whose user types this, and tells what was shown, and
// whether the terminal is as it was.
func typing(keys string) (q *Asker, shown *strings.Builder, raw *int) {
	shown, raw = &strings.Builder{}, new(int)
	q = New(strings.NewReader(keys), shown, func() (func(), error) {
		*raw++
		return func() { *raw-- }, nil
	})
	return q, shown, raw
}

var (
	secretInput = config.Input{ID: "api-key", Variable: "EVERLINE_INPUT_API_KEY", Description: "the API\nkey", Password: true, Origin: config.Origin{File: "mcp.json", Line: 3}}
	choiceInput = config.Input{ID: "region", Options: []string{"eu", "us"}, Default: new("eu"), Origin: config.Origin{File: "mcp.json", Line: 4}}
)

// TestPasswordsAreNotShown types a password, and is not asked again.
func TestPasswordsAreNotShown(t *testing.T) {
	t.Parallel()
	q, shown, raw := typing("s3cret\rnext\r")
	for range 2 {
		if v, ok := q.Ask(secretInput); v != "s3cret" || !ok {
			t.Errorf("%q, %v", v, ok)
		}
	}
	if text := shown.String(); strings.Count(text, "the API key (api-key in mcp.json:3; not shown): ") != 1 || strings.Contains(text, "s3cret") || *raw != 0 {
		t.Errorf("shown %q, raw %d", text, *raw)
	}
	q.Done()
	if v, ok := q.Ask(secretInput); v != "s3cret" || !ok {
		t.Errorf("after the asking: %q, %v", v, ok)
	}
	if v, ok := q.Ask(choiceInput); ok {
		t.Errorf("asked after the asking, and got %q", v)
	}
}

func TestChoicesAreChecked(t *testing.T) {
	t.Parallel()
	for keys, want := range map[string]string{"asia\rus\r": "us", "\r": "eu", "eu\n": "eu", "a\rb\rc\rus\r": ""} {
		q, _, _ := typing(keys)
		if v, ok := q.Ask(choiceInput); v != want || ok != (want != "") {
			t.Errorf("%q: %q, %v", keys, v, ok)
		}
	}
}

// TestNoAnswer is Ctrl-C, Ctrl-D, an empty line and the end of the input: each
// is taken as it is, and not asked about again.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	for _, keys := range []string{"\x03late\r", "\x04late\r", "\rlate\r", ""} {
		q, shown, raw := typing(keys)
		for range 2 {
			if v, ok := q.Ask(secretInput); ok || *raw != 0 {
				t.Errorf("%q: answered %q, raw %d", keys, v, *raw)
			}
		}
		if strings.Count(shown.String(), "not answered; without a terminal, set EVERLINE_INPUT_API_KEY") != 1 {
			t.Errorf("%q: shown %q", keys, shown.String())
		}
	}
}
