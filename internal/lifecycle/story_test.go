package lifecycle

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestStories replays testdata/*.txt. A line that begins with # tells why, a
// line without indent is an event (or "policy", once, at the top), and the
// indented lines below it are what Step made of it: the effects, then the
// state. All invariants hold in them too.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d stories, %v", len(files), err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got, err := tell(string(text))
			if err != nil {
				t.Fatal(err)
			}
			golden(t, path, got)
		})
	}
}

func tell(text string) (string, error) {
	w := newWorld(DefaultPolicy())
	var out strings.Builder
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if strings.HasPrefix(line, "  ") {
			continue
		}
		fmt.Fprintln(&out, line)
		if line == "" || line[0] == '#' {
			continue
		}
		if err := w.obey(line, &out); err != nil {
			return "", fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	return out.String(), nil
}

func (w *world) obey(line string, out *strings.Builder) error {
	c := parse(line)
	if c.verb == "policy" {
		return w.policy(c)
	}
	ev, err := c.event()
	if err != nil {
		return err
	}
	fx, err := w.step(ev)
	switch {
	case err != nil:
		return err
	case len(fx) == 0:
		fmt.Fprintln(out, "  nothing")
	default:
		fmt.Fprintf(out, "  %s\n  %s\n", describeEffects(fx), describeState(w.s))
	}
	return nil
}

// A command is one line of a story: verb, plain words, and name=value pairs.
type command struct {
	verb  string
	words []string
	vals  map[string]string
}

func parse(line string) command {
	f := strings.Fields(line)
	c := command{verb: f[0], vals: map[string]string{}}
	for _, w := range f[1:] {
		if name, val, ok := strings.Cut(w, "="); ok {
			c.vals[name] = val
		} else {
			c.words = append(c.words, w)
		}
	}
	return c
}

func (c command) has(word string) bool {
	for _, w := range c.words {
		if w == word {
			return true
		}
	}
	return false
}

func (c command) num(name string) int { n, _ := strconv.Atoi(c.vals[name]); return n }

func (c command) gen() uint64 {
	for _, w := range c.words {
		if n, err := strconv.ParseUint(w, 10, 64); err == nil {
			return n
		}
	}
	return 0
}

func (c command) end() end {
	d, _ := time.ParseDuration(c.vals["after"])
	down, _ := time.ParseDuration(c.vals["down"])
	e := end{after: d, recent: c.num("recent"), down: down}
	for i, name := range verdictNames {
		if c.has(name) {
			e.verdict = Verdict(i)
		}
	}
	return e
}

func (c command) event() (Event, error) {
	gen, e := c.gen(), c.end()
	switch c.verb {
	case "want":
		return Want{Want: c.has("on"), Lazy: c.has("lazy"), Overlap: c.has("overlap"), Spec: uint64(c.num("spec"))}, nil
	case "wake":
		return Wake{Operator: c.has("operator"), TooSoon: c.has("too-soon")}, nil
	case "started":
		return Started{gen}, nil
	case "failed":
		return Failed{gen, e.verdict, e.after, e.recent, e.down}, nil
	case "exited":
		return Exited{gen, e.verdict, e.after, e.recent, e.down}, nil
	case "struck":
		return Struck{gen, c.has("list"), e.recent, e.down}, nil
	case "healthy":
		return Healthy{gen, c.has("list")}, nil
	case "stable":
		return Stable{gen}, nil
	case "idled":
		return Idled{gen}, nil
	case "closed":
		return Closed{gen, c.has("err")}, nil
	case "retrydue":
		return RetryDue{gen}, nil
	case "returned":
		return Returned{gen}, nil
	}
	return nil, fmt.Errorf("no such event: %q", c.verb)
}

func (w *world) policy(c command) error {
	for name := range c.vals {
		switch name {
		case "fastfor", "maxdelay":
			d, err := time.ParseDuration(c.vals[name])
			if err != nil {
				return err
			}
			if name == "fastfor" {
				w.p.FastFor = d
			} else {
				w.p.MaxDelay = d
			}
		case "maxstarts":
			w.p.MaxStarts = c.num(name)
		case "restart":
			for i, n := range restartNames {
				if n == c.vals[name] {
					w.p.Restart = Restart(i)
				}
			}
		default:
			return fmt.Errorf("no such number: %q", name)
		}
	}
	return nil
}
