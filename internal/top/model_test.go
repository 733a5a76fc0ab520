package top

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/show"
)

var rewrite = flag.Bool("rewrite", false, "write the golden frames anew")

func TestMain(m *testing.M) {
	time.Local = time.UTC // the frames show times of day
	os.Exit(m.Run())
}

var start = time.Date(2026, 1, 2, 10, 5, 0, 0, time.UTC)

func ptr[T any](v T) *T { return &v }

func ago(d time.Duration) *time.Time { return ptr(start.Add(-d)) }

// sample has a server in every kind of trouble.
func sample() admin.Status {
	return admin.Status{
		Endpoint: "http://127.0.0.1:7433/mcp", StartedAt: start.Add(-76 * time.Hour), Config: []string{"/etc/everline.json"}, Warnings: []string{"a"},
		Servers: []admin.Server{
			{
				Name: "github", State: "connected", Generation: 4, Tools: 41, Transport: "stdio", PID: ptr(8123), Memory: ptr(int64(62_000_000)),
				Era: ptr("legacy"), ProtocolVersion: ptr("2025-06-18"), CatalogAt: ago(time.Hour), Since: ago(2 * time.Hour), Cause: ptr("older"),
				Out: 2, Calls: 1000, P50: ptr(12.5), P95: ptr(310.0), Origin: "everline.json:3", Warnings: []string{"it floods its stderr: 90 kB a second"},
			},
			{
				Name: "linear", State: "auth_required", Tools: 23, Transport: "http", URL: ptr("https://mcp.example/mcp"), CatalogAt: ago(3 * time.Minute),
				Cause: ptr("401"), Remedy: ptr("run: everline auth login linear"), Origin: "everline.json:9",
			},
			{
				Name: "postgres", State: "disconnected", Generation: 12, Tools: 9, Transport: "stdio", CatalogAt: ago(7 * time.Minute), Since: ago(time.Minute),
				Cause: ptr("exit 1 after 0.4 s, and this is a cause that is far too long for its column even in a wide window of 200 columns, where it is cut"),
				Exit:  ptr("exit 1"), NextAttempt: ago(-27 * time.Second), Attempt: 4, Waiting: 2,
				Stderr: []string{"starting", "FATAL: password\x1b[2J authentication failed"}, Remedy: ptr("everline logs postgres"), Origin: "everline.json:14",
			},
			{Name: "\u6f22\u5b57-server-with-a-very-long-name", State: "idle", Transport: "stdio", Tools: 1, CatalogAt: ago(time.Hour), Since: ago(time.Hour)},
			{Name: "off", State: "disabled", Transport: "sse", Remedy: ptr("everline enable off"), Since: ago(26 * time.Hour)},
		},
	}
}

func happen(seq uint64, before time.Duration, server, kind, text string) happened {
	return happened{admin.Event{Seq: seq, Time: start.Add(-before), Server: server, Generation: seq, Kind: kind, Text: text}, seq == 1}
}

// sampleModel has been looking for four seconds.
func sampleModel(width, height int) *model {
	m := newModel(sample(), start.Add(-4*time.Second), width, height)
	later := sample()
	later.Servers[0].Calls += 90
	m.update(start, answered{later})
	for _, e := range []happened{
		happen(1, time.Hour, "github", "connecting", "connecting"),
		happen(2, time.Hour, "github", "connected", "connected: stdio, legacy 2025-06-18, 41 tools"),
		happen(3, time.Minute, "postgres", "lost", "lost: exit 1\nafter 0.4 s"),
		happen(4, 50*time.Second, "github", "call_replayed", "tools/call search was sent again"),
		happen(5, 33*time.Second, "postgres", "start_failed", "start failed: exit 1 after 0.4 s; next try in 60 s"),
	} {
		m.update(start, e)
	}
	return m
}

// render writes a frame as text, and beside each line which of its parts have
// a tone.
func render(frame []line) string {
	var b strings.Builder
	names := []string{"", "strong", "dim", "title", "good", "busy", "warn", "bad", "chosen"}
	for _, l := range frame {
		text, marks := "", []string(nil)
		for _, s := range l {
			if s.tone != plain {
				marks = append(marks, fmt.Sprintf("%s@%d", names[s.tone], show.Width(text)))
			}
			text += s.text
		}
		b.WriteString("|" + strings.TrimRight(text, " "))
		if len(marks) > 0 {
			b.WriteString("  <" + strings.Join(marks, " ") + ">")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("%s is not as in %s (-rewrite after a look):\n%s", t.Name(), path, got)
	}
}

// TestFrames are the pages at two widths.
func TestFrames(t *testing.T) {
	for name, keys := range map[string][]string{
		"list":    nil,
		"down":    {"j", "j"},
		"filter":  {"/", "s", "t", "d", "i", "o"},
		"sorted":  {"s", "s"},
		"ask":     {"r"},
		"server":  {"j", "j", "enter"},
		"help":    {"?"},
		"nothing": {"/", "#", "enter"},
	} {
		for _, width := range []int{80, 200} {
			t.Run(fmt.Sprintf("%s-%d", name, width), func(t *testing.T) {
				m := sampleModel(width, 24)
				for _, k := range keys {
					m.update(start, pressed{k})
				}
				golden(t, fmt.Sprintf("%s-%d", name, width), render(m.frame()))
			})
		}
	}
	t.Run("lost-80", func(t *testing.T) {
		m := sampleModel(80, 24)
		m.update(start.Add(12*time.Second), lost{"no everline runs on the state folder /x"})
		golden(t, "lost-80", render(m.frame()))
		m.update(start.Add(13*time.Second), answered{sample()})
		if text := render(m.frame()); strings.Contains(text, "not running") {
			t.Errorf("it answers again, and the view says\n%s", text)
		}
	})
}

// TestKeysAct drives the operations: nothing is done without a yes, and it is
// done to the server that was asked about.
func TestKeysAct(t *testing.T) {
	m := sampleModel(80, 24)
	press := func(keys ...string) (effects []any) {
		for _, k := range keys {
			effects = append(effects, m.update(start, pressed{k})...)
		}
		return effects
	}
	if got := press("r", "n", "d", "esc", "e", "q"); len(got) != 0 {
		t.Errorf("without a yes: %v", got)
	}
	if got := press("j", "j", "c", "y"); !slices.Equal(got, []any{operate{"postgres", "reconnect"}}) {
		t.Errorf("reconnect: %v", got)
	}
	if got := press("enter", "d"); !slices.Equal(got, []any{readLog{"postgres"}}) {
		t.Errorf("its page: %v", got)
	}
	down := sample()
	down.Servers = down.Servers[:1]
	m.update(start, answered{down}) // the server goes while the question is open
	if got := press("y"); !slices.Equal(got, []any{operate{"postgres", "disable"}}) {
		t.Errorf("disable: %v", got)
	}
	m.update(start, operated{server: "postgres", op: "disable", err: errors.New("no server is called postgres")})
	if text := render(m.frame()); !strings.Contains(text, "disable postgres: no server is called postgres  <bad@0>") || !strings.Contains(text, "not configured any more") {
		t.Errorf("the failure is not told:\n%s", text)
	}
	if got := press("r", "y"); len(got) != 0 {
		t.Errorf("a server that is gone: %v", got)
	}
	press("esc")
	if m.page != listPage || m.selected != "github" {
		t.Errorf("after leaving the page: page %d, selected %q", m.page, m.selected)
	}
	m.update(start, operated{server: "github", op: "restart", now: admin.Server{Name: "github", State: "reconnecting"}})
	if text := render(m.frame()); !strings.Contains(text, "restart github: done, it is reconnecting") {
		t.Errorf("the outcome is not told:\n%s", text)
	}
	m.update(start.Add(noticeTime), ticked{})
	if text := render(m.frame()); !strings.Contains(text, "q quit") {
		t.Errorf("the outcome stays for ever:\n%s", text)
	}
	if got := press("q"); !slices.Equal(got, []any{quit{}}) {
		t.Errorf("quit: %v", got)
	}
}

func TestFilterAndSort(t *testing.T) {
	m := sampleModel(80, 24)
	names := func() string {
		var all []string
		for _, s := range m.rows() {
			all = append(all, s.Name)
		}
		return strings.Join(all[:min(len(all), 3)], " ")
	}
	for _, k := range []string{"/", "g", "r", "x", "backspace", "enter"} {
		m.update(start, pressed{k})
	}
	if names() != "postgres" || m.typing || m.filter != "gr" {
		t.Errorf("filter %s: %s", m.filter, names())
	}
	m.update(start, pressed{"esc"})
	want := []string{
		"github linear off", "linear postgres github", "github linear postgres", "github linear postgres", "github linear postgres", "github linear postgres",
	}
	for i, w := range want {
		m.update(start, pressed{"s"})
		if names() != w {
			t.Errorf("order %d: %s, want %s", i+1, names(), w)
		}
	}
	if m.sorting != 0 {
		t.Error("the last order is not followed by the first")
	}
	for range 100 {
		m.update(start, pressed{"/"})
		m.update(start, pressed{"x"})
	}
	if len(m.filter) > maxFilter {
		t.Errorf("a filter of %d bytes", len(m.filter))
	}
}

// TestEverySizeFits draws all pages in all kinds of windows, after keys at random.
func TestEverySizeFits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	keys := []string{"up", "down", "pgup", "pgdn", "home", "end", "enter", "esc", "/", "x", "s", "?", "r", "y", "d", "n", "backspace", "left"}
	m := sampleModel(80, 24)
	many := sample()
	for i := range 300 {
		many.Servers = append(many.Servers, admin.Server{Name: fmt.Sprint("s", i), State: "connected"})
	}
	for i := range 1500 {
		switch r.IntN(10) {
		case 0:
			m.update(start, sized{r.IntN(260), r.IntN(60)})
		case 1:
			m.update(start, answered{[]admin.Status{sample(), many, {}}[r.IntN(3)]})
		case 2:
			m.update(start, happen(uint64(r.IntN(3)+1), 0, "github", "lost", "lost"))
		default:
			m.update(start, pressed{keys[r.IntN(len(keys))]})
		}
		frame := m.frame()
		if m.width > 0 && len(frame) != m.height {
			t.Fatalf("step %d: %d lines in a window of %dx%d", i, len(frame), m.width, m.height)
		}
		if len(m.filter) > 3 {
			m.filter = ""
		}
	}
}

// TestSelectionStaysInSight moves through more servers than there are rows.
func TestSelectionStaysInSight(t *testing.T) {
	m := sampleModel(80, 24)
	many := sample()
	for i := range 100 {
		many.Servers = append(many.Servers, admin.Server{Name: fmt.Sprint("s", i), State: "connected"})
	}
	m.update(start, answered{many})
	for _, key := range append(slices.Repeat([]string{"pgdn", "down"}, 12), slices.Repeat([]string{"up"}, 110)...) {
		m.update(start, pressed{key})
		var selected []string
		for _, l := range m.frame() {
			if len(l) == 1 && l[0].tone == chosen {
				selected = append(selected, l[0].text)
			}
		}
		if len(selected) != 1 || !strings.Contains(selected[0], " "+m.selected+" ") && m.selected != sample().Servers[3].Name {
			t.Fatalf("after %s: selected %q, shown %q", key, m.selected, selected)
		}
	}
	if m.selected != "github" {
		t.Errorf("the first one is %q", m.selected)
	}
}

// TestWhatIsKeptIsBounded is a view that is left open for long.
func TestWhatIsKeptIsBounded(t *testing.T) {
	m := sampleModel(80, 24)
	for i := range 20 * keptEvents {
		m.update(start, happen(uint64(i+2), 0, "github", "lost", "lost"))
	}
	if n := len(m.events); n >= 2*keptEvents+1 || cap(m.events) > 4*keptEvents {
		t.Errorf("%d events are kept, with room for %d", n, cap(m.events))
	}
	m.update(start, pressed{"enter"})
	m.update(start, logged{"github", make([]admin.LogLine, 10*keptLogs)})
	if len(m.logs) != keptLogs {
		t.Errorf("%d lines are kept", len(m.logs))
	}
	st := sample()
	for i := range 5000 {
		st.Servers[0].Calls += 7
		m.update(start.Add(time.Duration(i)*100*time.Millisecond), answered{st})
	}
	if n := len(m.rates["github"].times); n > 10 {
		t.Errorf("%d samples of a rate", n)
	}
	if v, ok := m.rates["github"].perSecond(); !ok || v < 69.9 || v > 70.1 {
		t.Errorf("%v calls a second, want 70", v)
	}
	st.Servers[0].Name = "renamed"
	m.update(start, answered{st})
	if len(m.rates) != len(st.Servers) {
		t.Errorf("%d rates of %d servers", len(m.rates), len(st.Servers))
	}
}

// TestAnotherEverlineCountsAnew restarts the gateway under the view.
func TestAnotherEverlineCountsAnew(t *testing.T) {
	m := sampleModel(80, 24)
	again := sample()
	again.StartedAt, again.Servers[0].Calls = start, 3
	m.update(start.Add(time.Second), answered{again})
	if v, ok := m.rates["github"].perSecond(); ok {
		t.Errorf("%v calls a second from one look", v)
	}
	m.update(start.Add(time.Second), happen(1, 0, "linear", "connecting", "connecting"))
	if len(m.events) != 1 {
		t.Errorf("%d events: the old ones are still there", len(m.events))
	}
}
