package lifecycle

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// golden compares got with the file, or writes it under -rewrite.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		g, w := lineAt(gotLines, i), lineAt(wantLines, i)
		if g != w {
			t.Errorf("%s:%d:\n got %q\nwant %q", path, i+1, g, w)
			return
		}
	}
}

func lineAt(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(end)"
}

// words joins what is not empty.
func words(parts ...string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, " ")
}

func ifs(cond bool, text string) string {
	if cond {
		return text
	}
	return ""
}

func num[T int | uint64 | time.Duration](name string, v T) string {
	return ifs(v != 0, fmt.Sprintf("%s=%v", name, v))
}

func describeState(s State) string {
	stopped := ""
	if s.Stopped != None {
		stopped = "(" + s.Stopped.String() + ")"
	}
	next := ifs(s.Next != NoNext, "next="+s.Next.String()+stopped)
	return words(fmt.Sprintf("%v: %s", s.Phase(), s.Seen()),
		num("gen", s.Gen), num("trying", s.Trying), num("serving", s.Serving),
		ifs(s.Serving != 0 && s.ServingSpec != s.Spec, fmt.Sprintf("old-spec=%d", s.ServingSpec)),
		ifs(s.Proven, "proven"), num("closing", s.Closing[0]), num("closing", s.Closing[1]),
		next, ifs(s.NoEarlyWake, "no-early-wake"), ifs(s.LoginOnly, "login-only"), ifs(s.Unready, "unready"), ifs(s.ResumeIdle, "resume-idle"), num("attempt", s.Attempt), num("returns", s.Returns), ifs(s.Brought, "brought"), num("last-lost", s.LastLost),
		num("list-strikes", s.ListStrikes), num("call-strikes", s.CallStrikes))
}

func describeEffect(fx Effect) string {
	switch fx := fx.(type) {
	case Start:
		return fmt.Sprintf("start %d spec=%d", fx.Gen, fx.Spec)
	case Stop:
		return words(fmt.Sprintf("stop %d", fx.Gen), ifs(fx.Drain, "drain"))
	case Arm:
		return words(fmt.Sprintf("arm %v %d", fx.Timer, fx.Gen), num("after", fx.After), num("least", fx.Least),
			ifs(fx.Jitter, "jitter"), ifs(fx.Keep, "keep"), num("heed", fx.Heed))
	case Disarm:
		return fmt.Sprintf("disarm %v", fx.Timer)
	case Publish:
		return "publish"
	}
	panic("bug: an effect of an unknown type")
}

func describeEffects(fx []Effect) string {
	var out []string
	for _, f := range fx {
		out = append(out, describeEffect(f))
	}
	return strings.Join(out, ", ")
}

func describeEnd(name string, gen uint64, e end) string {
	return words(fmt.Sprintf("%s %d %v", name, gen, e.verdict), num("after", e.after), num("recent", e.recent), num("down", e.down))
}

func kind(list bool) string {
	if list {
		return "list"
	}
	return "call"
}

func describeEvent(ev Event) string {
	switch ev := ev.(type) {
	case Want:
		if !ev.Want {
			return "want off"
		}
		return words("want on", ifs(ev.Lazy, "lazy"), ifs(ev.Overlap, "overlap"), num("spec", ev.Spec))
	case Wake:
		return words("wake", ifs(ev.Operator, "operator"), ifs(ev.TooSoon, "too-soon"))
	case Started:
		return fmt.Sprintf("started %d", ev.Gen)
	case Failed:
		return describeEnd("failed", ev.Gen, end{ev.Verdict, ev.After, ev.Recent, ev.Down})
	case Exited:
		return describeEnd("exited", ev.Gen, end{ev.Verdict, ev.After, ev.Recent, ev.Down})
	case Struck:
		return words(fmt.Sprintf("struck %d %s", ev.Gen, kind(ev.List)), num("recent", ev.Recent), num("down", ev.Down))
	case Healthy:
		return fmt.Sprintf("healthy %d %s", ev.Gen, kind(ev.List))
	case Stable:
		return fmt.Sprintf("stable %d", ev.Gen)
	case Idled:
		return fmt.Sprintf("idled %d", ev.Gen)
	case Closed:
		return words(fmt.Sprintf("closed %d", ev.Gen), ifs(ev.Err, "err"))
	case RetryDue:
		return fmt.Sprintf("retrydue %d", ev.Gen)
	case Returned:
		return fmt.Sprintf("returned %d", ev.Gen)
	}
	panic("bug: an event of an unknown type")
}
