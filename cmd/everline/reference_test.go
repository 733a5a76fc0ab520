package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/demo"
	"github.com/everline/everline/internal/doctor"
	"github.com/everline/everline/internal/drill"
	"github.com/everline/everline/internal/fileedit"
	"github.com/everline/everline/internal/trust"
)

// documented are the types of docs/reference/json.md, by the headings over
// their tables.
var documented = map[string]any{
	"status": admin.Status{}, "A server": admin.Server{}, "Outcomes of calls": admin.Outcomes{}, "A phase": admin.Phase{}, "A session": admin.Session{}, "What a server offers": admin.Offered{}, "An orphan": admin.Orphan{},
	"events": admin.Event{}, "logs": admin.LogLine{},
	"tools": admin.Tool{}, "tools diff": admin.Pins{}, "A change": admin.PinChange{}, "tools approve": admin.Approved{},
	"drill": drill.Report{}, "Calls": admin.DrillCalls{}, "Lists": drill.Lists{},
	"doctor": diagnosis{}, "A finding": doctor.Finding{},
	"validate": validation{}, "A file": validatedFile{}, "A server of a file": validated{},
	"reload": admin.Reload{}, "import": fileedit.Found{}, "trust": trust.Looked{}, "What it reaches": trust.Reached{}, "add, remove, link, unlink, import --to": editResult{},
	"A client's token": clientToken{}, "auth status": authReport{}, "A server's login": authServer{}, "A credential": admin.Auth{}, "auth login": loginStep{},
	"version": versions{}, "What runs": admin.Version{}, "demo": demo.Report{},
}

// TestJSONPage compares the tables of docs/reference/json.md with the types:
// each member has its line, with its type and a meaning.
func TestJSONPage(t *testing.T) {
	t.Parallel()
	tables := tablesOf(t, "../../docs/reference/json.md")
	for heading, v := range documented {
		want := members(reflect.TypeOf(v))
		for _, row := range tables[heading] {
			i := slices.Index(want, strings.Join(row[:2], " | "))
			switch {
			case i < 0:
				t.Errorf("%s: no member is %q, or it is a duplicate", heading, row[:2])
			case len(row) != 3 || row[2] == "":
				t.Errorf("%s: %s has no meaning", heading, row[0])
				fallthrough
			default:
				want = slices.Delete(want, i, i+1)
			}
		}
		for _, member := range want {
			t.Errorf("%s: no line for %s", heading, member)
		}
	}
}

// tablesOf reads a document: the cells of the rows by the headings above them.
func tablesOf(t *testing.T, path string) map[string][][]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	tables, heading := map[string][][]string{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "#"):
			heading = strings.ReplaceAll(strings.TrimSpace(strings.TrimLeft(line, "#")), "`", "")
		case strings.HasPrefix(line, "| `"):
			var cells []string
			for _, c := range strings.Split(strings.Trim(line, "|"), " | ") {
				cells = append(cells, strings.Trim(strings.TrimSpace(c), "`"))
			}
			tables[heading] = append(tables[heading], cells)
		}
	}
	return tables
}

// members are the JSON members of a type, "name | type".
func members(t reflect.Type) []string {
	var all []string
	for f := range t.Fields() {
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case tag == "-":
		case f.Anonymous && tag == "":
			all = append(all, members(f.Type)...)
		case f.IsExported():
			name := typeName(f.Type)
			if strings.Contains(options, "omitempty") {
				name += ", may be absent"
			}
			all = append(all, tag+" | "+name)
		}
	}
	return all
}

func typeName(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return "time"
	case t == reflect.TypeFor[json.RawMessage]():
		return "JSON"
	case t.Kind() == reflect.Pointer:
		return typeName(t.Elem()) + " or null"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "string"
	case reflect.Float64:
		return "number"
	case reflect.Slice:
		return "list of " + typeName(t.Elem()) + "s"
	case reflect.Map, reflect.Struct:
		return "object"
	default:
		return "integer"
	}
}

// TestEventKindsPage compares the table of event kinds with the types of events.
func TestEventKindsPage(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "../../event/event.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if s, ok := spec.Type.(*ast.StructType); ok {
			for _, f := range s.Fields.List {
				if id, ok := f.Type.(*ast.Ident); ok && len(f.Names) == 0 && id.Name == "Head" {
					want[snake(spec.Name.Name)] = true
				}
			}
		}
		return true
	})
	samePage(t, "json.md", "Kinds of events", want)
}

// snake turns the name of an event's type into its kind.
func snake(name string) string {
	var b strings.Builder
	for i, c := range name {
		if i > 0 && unicode.IsUpper(c) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

// TestErrorsPage compares docs/reference/errors.md with package fault.
func TestErrorsPage(t *testing.T) {
	t.Parallel()
	kinds := map[string]bool{}
	for k := fault.Kind(0); !strings.HasPrefix(k.String(), "kind("); k++ {
		kinds[k.String()] = true
	}
	samePage(t, "errors.md", "Kinds", kinds)
	outcomes := map[string]bool{}
	for _, o := range []fault.Outcome{fault.Unknown, fault.NotSent, fault.Answered} {
		outcomes[o.String()] = true
	}
	samePage(t, "errors.md", "Outcomes", outcomes)
}

// samePage compares the first cells of a table with what there is.
func samePage(t *testing.T, page, heading string, want map[string]bool) {
	t.Helper()
	if len(want) == 0 {
		t.Fatalf("%s: nothing to compare %q with", page, heading)
	}
	for _, row := range tablesOf(t, "../../docs/reference/"+page)[heading] {
		if !want[row[0]] {
			t.Errorf("%s, %s: nothing is called %s any more, or it is a duplicate", page, heading, row[0])
		}
		for _, cell := range row[1:] {
			if cell == "" {
				t.Errorf("%s, %s: %s has an empty cell", page, heading, row[0])
			}
		}
		delete(want, row[0])
	}
	for name := range want {
		t.Errorf("%s, %s: no line for %s", page, heading, name)
	}
}

// TestReadmeStatus keeps the sample in README.md as the program writes it.
func TestReadmeStatus(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	sample := regexp.MustCompile("(?s)```\n(everline   running .*?)```").FindSubmatch(readme)
	if sample == nil {
		t.Fatal("README.md shows no status")
	}
	if want := readmeStatus(); string(sample[1]) != want {
		t.Errorf("README.md shows\n%swhere everline writes\n%s", sample[1], want)
	}
}

// readmeStatus is what status writes in the state of things that README.md tells of.
func readmeStatus() string {
	now := time.Date(2026, 1, 2, 10, 5, 0, 0, time.Local)
	at := func(d time.Duration) *time.Time { return new(now.Add(d)) }
	st := admin.Status{
		Endpoint: "http://127.0.0.1:7433/mcp", StartedAt: now.Add(-76 * time.Hour), Config: []string{"everline.json"},
		Servers: []admin.Server{
			{
				Name: "files", State: "connected", Generation: 1, Tools: 14, Transport: "stdio", PID: new(8121), Memory: new(int64(48_000_000)),
				CatalogAt: at(-time.Hour), Since: at(-76 * time.Hour), P95: new(12.0),
			},
			{
				Name: "github", State: "connected", Generation: 4, Tools: 41, Transport: "stdio", PID: new(8123), Memory: new(int64(62_000_000)),
				CatalogAt: at(-time.Hour), Since: at(-2 * time.Hour), P95: new(310.0),
			},
			{
				Name: "postgres", State: "disconnected", Generation: 12, Tools: 9, Transport: "stdio", CatalogAt: at(-7 * time.Minute),
				Since: at(-3 * time.Second), AwaySince: at(-50 * time.Second), Cause: new("exit 1 after 0.4 s"), NextAttempt: at(27 * time.Second), Attempt: 4,
				Stderr: []string{`FATAL: password authentication failed for user "app"`}, Remedy: new("everline logs postgres"),
			},
		},
	}
	return statusPrinter{now: now, width: 100}.page(st, st.Servers)
}
