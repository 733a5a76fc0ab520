package evidence

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/everline/everline/fault"
)

var rewrite = flag.Bool("rewrite", false, "write the table in the documentation anew")

const (
	page  = "../../docs/explanation/lifecycle.md"
	begin = "<!-- evidence: made by go test ./internal/evidence -rewrite -->\n"
	end   = "<!-- evidence ends -->\n"
)

// table is the table as Markdown.
func table() string {
	var b strings.Builder
	b.WriteString("| what everline saw | counts against | what follows |\n|---|---|---|\n")
	for _, r := range slices.Concat([]Row{NoToken}, Table[:]) {
		b.WriteString("| " + r.Seen + " | " + r.Against.String() + " | " + r.Follows + " |\n")
	}
	return b.String()
}

// The table is a promise, and the page for users holds it.
func TestPageHoldsTheTable(t *testing.T) {
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(raw), begin)
	old, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", page)
	}
	if *rewrite {
		if err := os.WriteFile(page, []byte(head+begin+table()+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old != table() {
		t.Errorf("%s does not hold the table; run go test ./internal/evidence -rewrite", page)
	}
}

// No call, listing or message ends a generation by itself: what one request
// proves is at most that the session is gone.
func TestOneRequestEndsNoGeneration(t *testing.T) {
	for _, src := range []Source{Call, List, Message} {
		for k := fault.Internal; k <= fault.Closed; k++ {
			for _, o := range []fault.Outcome{fault.Unknown, fault.NotSent, fault.Answered} {
				switch a := Of(src, &fault.Fault{Kind: k, Outcome: o}); {
				case a == Generation || a == Login:
					t.Errorf("%d, %s, %s: %s", src, k, o, a)
				case a == Session && k != fault.SessionLost:
					t.Errorf("%d, %s, %s: a lost session", src, k, o)
				case a == Strike && (src != List || k == fault.Protocol):
					t.Errorf("%d, %s, %s: a strike without a probe", src, k, o)
				case src == Message && a != Request:
					t.Errorf("%s to a notification: %s", k, a)
				case o == fault.Answered && (a == Doubt || a == Strike):
					t.Errorf("%s, answered over a good link: %s", k, a)
				}
			}
		}
	}
}

// A request that was not sent says nothing of the server, whatever it was for.
func TestNoTokenBlamesNobody(t *testing.T) {
	for src := Call; src <= Start; src++ {
		for _, k := range NoToken.Kinds {
			if a := Of(src, &fault.Fault{Op: fault.OpAuthorize, Kind: k}); a != Request {
				t.Errorf("%d, %s: %s", src, k, a)
			}
		}
	}
	if a := Of(Probe, &fault.Fault{Op: fault.OpAuthorize, Kind: fault.Unauthorized}); a != Login {
		t.Errorf("a refusal is %s", a)
	}
}

// Each source has a row for every failure, and each row decides about one.
func TestTableIsComplete(t *testing.T) {
	used := map[string]bool{}
	for src := Call; src <= Link; src++ {
		for k := fault.Internal; k <= fault.Closed; k++ {
			i := slices.IndexFunc(Table[:], func(r Row) bool {
				return slices.Contains(r.From, src) && (r.Kinds == nil || slices.Contains(r.Kinds, k))
			})
			if i < 0 {
				t.Fatalf("nothing is said of %s at %d", k, src)
			}
			used[Table[i].Seen] = true
		}
	}
	for _, r := range Table {
		if !used[r.Seen] {
			t.Errorf("no failure comes to the row %q", r.Seen)
		}
	}
}
