package catalog

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var noon = time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)

func TestEmptyTable(t *testing.T) {
	for _, entries := range [][]Entry{nil, {{Server: "a"}}, {{Server: "a"}, {Server: "b", Published: true}}, {entry("off", "t"), {Server: "b"}}} {
		if len(entries) == 2 {
			entries[0].Published = false
		}
		table := Merge(entries, Naming{})
		for _, k := range Kinds {
			if string(table.Array(k)) != "[]" || table.Len(k) != 0 || table.Has(k) {
				t.Errorf("%v: %s, %d, %v", entries, table.Array(k), table.Len(k), table.Has(k))
			}
		}
		for _, name := range []string{"", "t", "off__t", "__", "b__"} {
			if target, ok := table.Tool(name); ok {
				t.Errorf("%q goes to %+v", name, target)
			}
		}
		if _, ok := table.Resource("a:b"); ok || table.Instructions() != "" || table.Conflicts() != nil {
			t.Errorf("%v: there is something in it", entries)
		}
	}
}

func TestOutageMark(t *testing.T) {
	tools := []string{
		`{"name":"a","inputSchema":{"type":"object"} }`,
		`{"name":"b", "_meta" : { "k" : 1.0 },"inputSchema":{"type":"object"}}`,
		`{"name":"c","_meta":{},"inputSchema":{"type":"object"}}`,
		`{"name":"d","_meta":{"everline/availability":7,"z":2},"inputSchema":{"type":"object"}}`,
	}
	items, _ := readAll(t, Tools, tools...)
	entries := []Entry{{Server: "s", Published: true, Catalog: &Catalog{Items: [4][]Item{items}}}}
	var m Merger
	up := m.Merge(entries)
	if got := string(up.Array(Tools)); got != "["+strings.Join(tools, ",")+"]" {
		t.Errorf("up: %s", got)
	}
	entries[0].Away = &Away{State: "reconnecting", Since: noon, Cause: `exit "1" <`}
	down := m.Merge(entries)
	mark := `{"state":"reconnecting","since":"2026-07-28T12:00:00Z","cause":"exit \"1\" <"}`
	want := "[" + strings.Join([]string{
		`{"name":"a","inputSchema":{"type":"object"} ,"_meta":{"everline/availability":` + mark + `}}`,
		`{"name":"b", "_meta" : { "k" : 1.0 ,"everline/availability":` + mark + `},"inputSchema":{"type":"object"}}`,
		`{"name":"c","_meta":{"everline/availability":` + mark + `},"inputSchema":{"type":"object"}}`,
		`{"name":"d","_meta":{"everline/availability":` + mark + `,"z":2},"inputSchema":{"type":"object"}}`,
	}, ",") + "]"
	if got := string(down.Array(Tools)); got != want {
		t.Errorf("down:\n%s\nwant\n%s", got, want)
	}
	entries[0].Away = &Away{State: "failed", Since: noon}
	if got := string(m.Merge(entries).Array(Tools)); !json.Valid([]byte(got)) || !strings.Contains(got, `"state":"failed","since":"2026-07-28T12:00:00Z"}`) {
		t.Errorf("another mark: %s", got)
	}
	entries[0].Away = nil
	back := m.Merge(entries)
	for _, k := range Kinds {
		if up.Hash(k) != down.Hash(k) || up.Hash(k) != back.Hash(k) {
			t.Errorf("%s: an outage with an identical catalog is a change", k)
		}
	}
	if string(back.Array(Tools)) != string(up.Array(Tools)) {
		t.Errorf("back: %s", back.Array(Tools))
	}
}

func TestFaultG13_OldTablesStayNewOnesShowTheChange(t *testing.T) {
	var m Merger
	entries := []Entry{entry("a", "x"), entry("b", "y"), {Server: "c"}}
	before := m.Merge(entries)
	array := string(before.Array(Tools))
	entries[0] = entry("a", "x", "new") // came back with one more
	entries[2] = entry("c", "added")
	after := m.Merge(entries)
	for _, name := range []string{"a__x", "a__new", "b__y", "c__added"} {
		if _, ok := after.Tool(name); !ok {
			t.Errorf("%s is not in the new table", name)
		}
	}
	if _, ok := before.Tool("a__new"); ok || string(before.Array(Tools)) != array {
		t.Error("the old table changed")
	}
	if before.Hash(Tools) == after.Hash(Tools) || before.Hash(Prompts) != after.Hash(Prompts) {
		t.Error("the hashes do not tell which kinds changed")
	}
	entries[1].Published = false
	gone := m.Merge(entries)
	if _, ok := gone.Tool("b__y"); ok || strings.Contains(string(gone.Array(Tools)), "b__y") {
		t.Error("a disabled server is still published")
	}
	if server, ok := gone.Server("b__y"); !ok || server != "b" {
		t.Errorf("b__y belongs to %q", server)
	}
}

func TestMergerKeepsWhatDidNotChange(t *testing.T) {
	var m Merger
	a, b := entry("a", "x"), entry("b", "y")
	a.Catalog.Items[Prompts] = []Item{{Name: "p", Raw: []byte(`{"name":"p"}`)}}
	b.Catalog.Items[Resources] = []Item{{Name: "r:1", Raw: []byte(`{"uri":"r:1","name":"r"}`)}}
	one := m.Merge([]Entry{a, b})
	if m.Merge([]Entry{a, b}) != one {
		t.Error("the same entries gave another table")
	}
	away := b
	away.Away = &Away{State: "failed", Since: noon}
	two := m.Merge([]Entry{a, away})
	if &one.Array(Prompts)[0] != &two.Array(Prompts)[0] {
		t.Error("prompts were encoded again though only another server went away")
	}
	if two.lists[Tools].part != one.lists[Tools].part || two.fragments[1] != one.fragments[1] {
		t.Error("an outage made new fragments")
	}
	same := away
	same.Away = &Away{State: "failed", Since: noon}
	if m.Merge([]Entry{a, same}) != two {
		t.Error("an equal mark gave another table")
	}
	same.Rules.Hide = []string{"y"}
	if three := m.Merge([]Entry{a, same}); three.Len(Tools) != 1 || three.fragments[0] != two.fragments[0] {
		t.Error("new rules of one server did not take effect, or touched the other")
	}
	m.Naming.Separator = "."
	if _, ok := m.Merge([]Entry{a, same}).Tool("a.x"); !ok {
		t.Error("a new separator did not take effect")
	}
}

func TestMergedAgainIsMergedAtOnce(t *testing.T) {
	var m Merger
	entries := []Entry{entry("a", "x"), entry("b", "y", "z"), {Server: "c"}}
	steps := []func(){
		func() { entries[0].Catalog = offer("x", "w") },
		func() { entries[1].Published = false },
		func() { entries[2] = entry("c", "c") },
		func() { entries[1].Published = true; entries[1].Away = &Away{State: "failed", Since: noon} },
		func() { slices.Reverse(entries) },
		func() { entries = entries[:1] },
		func() { entries = append(entries, entry("a__", "x")) },
	}
	for i, step := range steps {
		m.Merge(entries)
		step()
		got, want := m.Merge(entries), Merge(entries, Naming{})
		for _, k := range Kinds {
			if string(got.Array(k)) != string(want.Array(k)) || got.Hash(k) != want.Hash(k) {
				t.Errorf("step %d, %s:\n%s\nwant\n%s", i, k, got.Array(k), want.Array(k))
			}
		}
		if !reflect.DeepEqual(exposed(got), exposed(want)) {
			t.Errorf("step %d: %v, want %v", i, exposed(got), exposed(want))
		}
	}
}

func TestInstructions(t *testing.T) {
	a, b, c := entry("a"), entry("b"), entry("c")
	a.Catalog.Instructions, c.Catalog.Instructions = " use a \n", "use c"
	if got := Merge([]Entry{a}, Naming{}).Instructions(); got != " use a \n" {
		t.Errorf("one server: %q", got)
	}
	if got, want := Merge([]Entry{a, b, c}, Naming{}).Instructions(), "## a\n\nuse a\n\n## c\n\nuse c"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestHas(t *testing.T) {
	a, b := entry("a"), entry("b", "t")
	a.Catalog.Capabilities = []byte(`{"prompts":{},"resources":{"subscribe":true},"tools":null}`)
	table := Merge([]Entry{a}, Naming{})
	if table.Has(Tools) || !table.Has(Prompts) || !table.Has(Resources) || !table.Has(Templates) {
		t.Error("capabilities are not read right")
	}
	if !Merge([]Entry{a, b}, Naming{}).Has(Tools) {
		t.Error("a listed tool does not count")
	}
}

func templates(uris ...string) []Item {
	var items []Item
	for _, u := range uris {
		items = append(items, Item{Name: u, Raw: []byte(`{"uriTemplate":` + string(quote(u)) + `,"name":"n"}`)})
	}
	return items
}

func TestResourceRouting(t *testing.T) {
	a, b, c := entry("a"), entry("b"), entry("c")
	a.Catalog.Items[Templates] = templates("repo://{owner}/{name}", "file:///{+path}", "bad://{", "q://x{?p,q}")
	b.Catalog.Items[Templates] = templates("repo://{owner}/{name}/tree{/path*}", "repo://{owner}/{name}", "x.y://({z})", "f://a{#frag}", "l://n{.ext}")
	b.Catalog.Items[Resources] = []Item{{Name: "file:///exact", Raw: []byte(`{"uri":"file:///exact","name":"n"}`)}}
	table := Merge([]Entry{a, b, c}, Naming{})
	tests := map[string]string{
		"repo://me/it":            "a",
		"repo://me/it/tree":       "b",
		"repo://me/it/tree/x/y":   "b",
		"repo://me/":              "",
		"repo://me/it?x=1":        "",
		"file:///a/b c":           "a",
		"file:///":                "",
		"file:///exact":           "b",
		"bad://{":                 "",
		"q://x":                   "a",
		"q://x?p=1":               "a",
		"q://xy":                  "",
		"x.y://(1)":               "b",
		"xzy://(1)":               "",
		"f://a":                   "b",
		"f://a#1":                 "b",
		"l://n.json":              "b",
		"http://unknown.example/": "",
	}
	for uri, want := range tests {
		target, ok := table.Resource(uri)
		if ok != (want != "") || target.Server != want || (ok && target.Name != uri) {
			t.Errorf("%s goes to %+v, want %q", uri, target, want)
		}
	}
	if got := table.Conflicts(); len(got) != 1 || got[0] != (Conflict{Kind: Templates, Server: "b", Name: "repo://{owner}/{name}", Winner: "a"}) {
		t.Errorf("conflicts %+v", got)
	}
	// The only server with resources gets what nobody lists.
	if target, ok := Merge([]Entry{a, c}, Naming{}).Resource("http://unknown.example/"); !ok || target.Server != "a" {
		t.Errorf("one owner: %+v", target)
	}
}

func TestHandMadeCatalogsWithTwins(t *testing.T) {
	e := entry("s", "a", "a")
	e.Catalog.Items[Resources] = []Item{{Name: "r:", Raw: []byte(`{"uri":"r:"}`)}, {Name: "r:", Raw: []byte(`{"uri":"r:","x":1}`)}}
	table := Merge([]Entry{e}, Naming{})
	if table.Len(Tools) != 1 || string(table.Array(Resources)) != `[{"uri":"r:"}]` || len(table.Conflicts()) != 2 {
		t.Errorf("%s %s %+v", table.Array(Tools), table.Array(Resources), table.Conflicts())
	}
}

func TestTableIsSafeForManyGoroutines(t *testing.T) {
	e := entry("s", "a", "b")
	e.Away = &Away{State: "failed", Since: noon}
	e.Catalog.Items[Templates] = templates("x://{y}")
	var m Merger
	table := m.Merge([]Entry{e, entry("t", "a")})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, ok := table.Resource("x://1"); !ok || !json.Valid(table.Array(Tools)) || table.Instructions() != "" {
				t.Error("the table is not right")
			}
		})
	}
	for range 20 {
		e.Away = &Away{State: "failed", Since: e.Away.Since.Add(time.Second)}
		m.Merge([]Entry{e, entry("t", "b")}).Array(Tools)
	}
	wg.Wait()
}

func TestDiff(t *testing.T) {
	old := offer("a", "b", "c")
	tests := []struct {
		name string
		new  *Catalog
		want Change
	}{
		{"same", offer("a", "b", "c"), Change{}},
		{"added", offer("a", "b", "x", "c"), Change{Added: [4][]string{{"x"}}}},
		{"removed", offer("a", "c"), Change{Removed: [4][]string{{"b"}}}},
		{"reordered", offer("b", "a", "c"), Change{Reordered: [4]bool{true}}},
		{"nil", nil, Change{Removed: [4][]string{{"a", "b", "c"}}}},
	}
	for _, tt := range tests {
		got := Diff(old, tt.new)
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v", tt.name, got)
		}
		if empty := tt.name == "same"; got.Empty() != empty || (Hash(old) == Hash(tt.new)) != empty || (len(got.Kinds()) == 0) != empty {
			t.Errorf("%s: Empty %v, Kinds %v", tt.name, got.Empty(), got.Kinds())
		}
	}
	changed := offer("a", "b", "c")
	changed.Items[Tools][1].Raw = []byte(`{"name":"b", "inputSchema":{"type":"object"}}`)
	changed.Items[Prompts] = []Item{{Name: "p", Raw: []byte(`{"name":"p"}`)}}
	if got := Diff(old, changed); !reflect.DeepEqual(got.Changed[Tools], []string{"b"}) || !reflect.DeepEqual(got.Kinds(), []Kind{Tools, Prompts}) {
		t.Errorf("changed: %+v", got)
	}
	said := offer("a", "b", "c")
	said.Instructions = "x"
	if got := Diff(old, said); !got.Instructions || got.Empty() || got.Kinds() != nil || Hash(old) == Hash(said) {
		t.Errorf("instructions: %+v", got)
	}
	late := offer("a", "b", "c")
	late.At, late.TTL[Tools], late.Warnings[Tools] = noon, 1, []string{"w"}
	if !Diff(old, late).Empty() || Hash(old) != Hash(late) || !Diff(nil, nil).Empty() {
		t.Error("what is not offered counts")
	}
	if Diff(nil, old).Empty() || Hash(nil) != Hash(&Catalog{}) {
		t.Error("nil is not a catalog of nothing")
	}
}
