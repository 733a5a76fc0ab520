package catalog

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/everline/everline/config"
)

var rewrite = flag.Bool("rewrite", false, "write golden files anew")

// offer is a catalog of tools that have nothing but a name.
func offer(tools ...string) *Catalog {
	c := &Catalog{}
	for _, name := range tools {
		raw := fmt.Sprintf(`{"name":%s,"inputSchema":{"type":"object"}}`, quote(name))
		c.Items[Tools] = append(c.Items[Tools], Item{Name: name, Raw: []byte(raw)})
	}
	return c
}

func entry(server string, tools ...string) Entry {
	return Entry{Server: server, Published: true, Catalog: offer(tools...)}
}

// exposed maps "server/tool" to the exposed name.
func exposed(t *Table) map[string]string {
	all := map[string]string{}
	for l := range t.Items(Tools) {
		all[l.Server+"/"+l.Item.Name] = l.Exposed
	}
	return all
}

func TestNamesGolden(t *testing.T) {
	long := strings.Repeat("very_long_", 12)
	renames := entry("ren", "a", "b", "c", "search")
	renames.Rules.Rename = map[string]string{"a": "search", "b": "search", "c": "odd name"}
	table := Merge([]Entry{
		entry("github", "search", "list.all", "list_all", "a b", "a_b", "ünïcode", "x__y", long+"1", long+"2"),
		entry("files", "search", "read/file"),
		entry("my server", "search"),
		entry("my_server", "search"),
		entry("a__b", "c"),
		entry("a", "b__c", "_c"),
		entry("a_", "c"),
		entry("日本", "search"),
		entry(strings.Repeat("s", 70), "search", long),
		renames,
	}, Naming{})
	var b strings.Builder
	for l := range table.Items(Tools) {
		fmt.Fprintf(&b, "%s | %s | %s\n", l.Server, l.Item.Name, l.Exposed)
	}
	if *rewrite {
		if err := os.WriteFile("testdata/names.golden", []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/names.golden")
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("names differ from testdata/names.golden (-rewrite writes it anew). Clients know these names: they must not change.\n%s", b.String())
	}
}

func TestFaultI1_SameNameOnSeveralServers(t *testing.T) {
	table := Merge([]Entry{entry("a", "search"), entry("b", "search"), entry("süd west", "search", "找 x")}, Naming{})
	names := exposed(table)
	if names["a/search"] != "a__search" || names["b/search"] != "b__search" {
		t.Errorf("names %v", names)
	}
	if table.Len(Tools) != 4 {
		t.Errorf("%d tools are listed, want 4", table.Len(Tools))
	}
	for l := range table.Items(Tools) {
		target, ok := table.Tool(l.Exposed)
		if !ok || target.Server != l.Server || target.Name != l.Item.Name {
			t.Errorf("%s goes to %+v, want %s of %s", l.Exposed, target, l.Item.Name, l.Server)
		}
		if plain(l.Exposed) != l.Exposed || len(l.Exposed) > 64 {
			t.Errorf("%s of %s is exposed as %q", l.Item.Name, l.Server, l.Exposed)
		}
	}
}

// TestAlwaysPrefix has a second server come: no name of the first one changes.
func TestAlwaysPrefix(t *testing.T) {
	n := Naming{Always: true}
	odd := "a name, 日本 / " + strings.Repeat("x", 100)
	alone := Merge([]Entry{entry("only", "t", odd)}, n)
	both := Merge([]Entry{entry("only", "t", odd), entry("second", "t")}, n)
	for own, name := range exposed(alone) {
		if !strings.HasPrefix(name, "only__") || exposed(both)[own] != name {
			t.Errorf("%s is %q, and beside another server %q", own, name, exposed(both)[own])
		}
		if target, ok := alone.Tool(name); !ok || "only/"+target.Name != own {
			t.Errorf("%q is not found: %+v", name, target)
		}
	}
	if server, ok := alone.Server("only__gone"); !ok || server != "only" {
		t.Errorf("a name of the server belongs to %q", server)
	}
	if none := Merge(nil, n); none.Len(Tools) != 0 {
		t.Error("no server, and tools")
	}
}

func TestFaultI1_OneServerKeepsItsNames(t *testing.T) {
	odd := "a name, 日本 / " + strings.Repeat("x", 100)
	table := Merge([]Entry{entry("only", odd)}, Naming{})
	if target, ok := table.Tool(odd); !ok || target.Name != odd {
		t.Errorf("%q is not found: %+v", odd, target)
	}
	// A second one that is configured but disabled counts: enabling it must
	// not rename the tools of the first.
	both := []Entry{entry("only", "t"), {Server: "off", Catalog: offer("u")}}
	before := exposed(Merge(both, Naming{}))["only/t"]
	both[1].Published = true
	if after := exposed(Merge(both, Naming{}))["only/t"]; before != "only__t" || after != before {
		t.Errorf("%q became %q", before, after)
	}
}

// A name that a client has kept over a change of the configuration is found as
// long as it can mean only one thing.
func TestOldNamesAreFound(t *testing.T) {
	renamed := entry("a", "echo", "old")
	renamed.Rules.Rename = map[string]string{"old": "new"}
	withheld := entry("a", "echo", "secret")
	withheld.Rules.Deny = []string{"secret"}
	off := entry("b", "a__echo")
	off.Published = false
	for _, c := range []struct {
		what       string
		entries    []Entry
		name, want string // server/tool; "" if it is not found
	}{
		{"without the label of one of two servers", []Entry{entry("a", "echo"), entry("b", "say")}, "echo", ""},
		{"from when there was another server", []Entry{entry("a", "echo")}, "a__echo", "a/echo"},
		{"the same, of an odd name", []Entry{entry("a b", "echo")}, Naming{}.filled().label("a b") + "__echo", "a b/echo"},
		{"of a server that is gone", []Entry{entry("a", "echo")}, "b__echo", ""},
		{"from before the rename", []Entry{renamed}, "old", "a/old"},
		{"the same, with a label", []Entry{renamed, entry("b", "x")}, "a__old", "a/old"},
		{"of a denied tool", []Entry{withheld}, "a__secret", ""},
		{"with the label of another server", []Entry{entry("a", "x"), entry("b", "a__echo")}, "a__echo", ""},
		{"of a server that is disabled", []Entry{entry("a", "x"), off}, "b__a__echo", ""},
	} {
		target, ok := Merge(c.entries, Naming{}).Tool(c.name)
		got := ""
		if ok {
			got = target.Server + "/" + target.Name
		}
		if got != c.want {
			t.Errorf("a name %s: %s is %q, want %q", c.what, c.name, got, c.want)
		}
	}
}

func TestFaultI2_NamesDoNotDependOnWhoIsUpFirst(t *testing.T) {
	long := strings.Repeat("n", 64)
	all := []Entry{
		entry("a.b", "x", long), entry("a_b", "x", long, "x."), entry("a b", "x", long), entry("c", "search", "a.b", "a_b", "a b"),
	}
	all[3].Rules.Rename = map[string]string{"a.b": "search"}
	want := exposed(Merge(all, Naming{}))
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		var m Merger
		now := slices.Clone(all)
		for i := range now {
			now[i].Catalog = nil
		}
		for _, i := range r.Perm(len(all)) { // they come up in this order
			c := *all[i].Catalog
			c.Items[Tools] = slices.Clone(c.Items[Tools])
			r.Shuffle(len(c.Items[Tools]), func(a, b int) { c.Items[Tools][a], c.Items[Tools][b] = c.Items[Tools][b], c.Items[Tools][a] })
			now[i].Catalog = &c
			for key, name := range exposed(m.Merge(now)) {
				if name != want[key] {
					t.Fatalf("seed %d: %s is called %s, want %s", seed, key, name, want[key])
				}
			}
		}
	}
}

func TestFaultI2_TakenNamesEnd(t *testing.T) {
	// "a.b" asks for a name with a hash; the server has a tool of just that name.
	first := strings.TrimPrefix(exposed(Merge([]Entry{entry("s", "a.b"), entry("t")}, Naming{}))["s/a.b"], "s__")
	table := Merge([]Entry{entry("s", "a.b", first, first+"2"), entry("t")}, Naming{})
	names := exposed(table)
	if len(names) != 3 || names["s/"+first] != "s__"+first || names["s/a.b"] == "s__"+first {
		t.Fatalf("names %v", names)
	}
	if target, _ := table.Tool(names["s/a.b"]); target.Name != "a.b" {
		t.Errorf("%s goes to %+v", names["s/a.b"], target)
	}
	if got := table.Conflicts(); len(got) != 1 || got[0].Name != "a.b" || got[0].Exposed != names["s/a.b"] || got[0].Server != "s" {
		t.Errorf("conflicts %+v", got)
	}
}

func TestFaultI3_NothingIsDroppedSilently(t *testing.T) {
	one, two := entry("one", "a", "b", "c"), entry("two", "a", "b", "c")
	two.Rules.Rename = map[string]string{"a": "b"}
	one.Catalog.Items[Resources] = []Item{{Name: "file:///x", Raw: []byte(`{"uri":"file:///x","name":"1"}`)}}
	two.Catalog.Items[Resources] = []Item{
		{Name: "file:///x", Raw: []byte(`{"uri":"file:///x","name":"2"}`)}, {Name: "file:///y", Raw: []byte(`{"uri":"file:///y","name":"2"}`)},
	}
	table := Merge([]Entry{one, two}, Naming{})
	if table.Len(Tools) != 6 {
		t.Errorf("%d tools are listed, want 6", table.Len(Tools))
	}
	if target, _ := table.Tool("two__b"); target.Name != "a" {
		t.Errorf("two__b goes to %+v, want the renamed tool", target)
	}
	if target, _ := table.Resource("file:///x"); target.Server != "one" {
		t.Errorf("file:///x goes to %+v", target)
	}
	if target, _ := table.Resource("file:///y"); target.Server != "two" {
		t.Errorf("file:///y goes to %+v", target)
	}
	if got := string(table.Array(Resources)); got != `[{"uri":"file:///x","name":"1"},{"uri":"file:///y","name":"2"}]` {
		t.Errorf("resources %s", got)
	}
	want := []Conflict{
		{Kind: Tools, Server: "two", Name: "b", Exposed: exposed(table)["two/b"], Winner: "two"},
		{Kind: Resources, Server: "two", Name: "file:///x", Winner: "one"},
	}
	if got := table.Conflicts(); !slices.Equal(got, want) {
		t.Errorf("conflicts %+v\nwant %+v", got, want)
	}
}

func TestNaming(t *testing.T) {
	tests := []struct {
		naming Naming
		want   string
	}{
		{Naming{}, "srv__tool"},
		{Naming{Separator: "-"}, "srv-tool"},
		{Naming{Separator: "."}, "srv.tool"},
		{Naming{Separator: "x"}, "srv__tool"},
		{Naming{Separator: "_____"}, "srv__tool"},
	}
	for _, tt := range tests {
		table := Merge([]Entry{entry("srv", "tool"), entry("b")}, tt.naming)
		if _, ok := table.Tool(tt.want); !ok {
			t.Errorf("%+v: %v, want %s", tt.naming, exposed(table), tt.want)
		}
		if server, ok := table.Server(tt.want); !ok || server != "srv" {
			t.Errorf("%+v: %s belongs to %q", tt.naming, tt.want, server)
		}
	}
}

// Names are drawn from few letters, so that they meet as often as they can.
func drawEntries(t *rapid.T) []Entry {
	name := rapid.StringOfN(rapid.SampledFrom([]rune("ab_.-é")), 1, 5, -1)
	long := rapid.StringOfN(rapid.SampledFrom([]rune("a_.")), 60, 70, -1)
	some := rapid.OneOf(name, name, name, long)
	servers := rapid.SliceOfNDistinct(some, 1, 6, rapid.ID).Draw(t, "servers")
	var entries []Entry
	for _, s := range servers {
		e := entry(s, rapid.SliceOfNDistinct(some, 0, 6, rapid.ID).Draw(t, "tools")...)
		e.Rules.Rename = rapid.MapOfN(some, name, 0, 2).Draw(t, "rename")
		entries = append(entries, e)
	}
	return entries
}

func drawNaming(t *rapid.T) Naming {
	return Naming{
		Separator: rapid.SampledFrom([]string{"", "_", "__", "-", "_-", ".", "___"}).Draw(t, "separator"),
		Max:       rapid.SampledFrom([]int{0, 32, 40, 128}).Draw(t, "max"),
	}
}

func TestNamesAreUniqueAndStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries, naming := drawEntries(t), drawNaming(t)
		table := Merge(entries, naming)
		want := exposed(table)
		total := 0
		for _, e := range entries {
			total += len(e.Catalog.Items[Tools])
		}
		seen := map[string]bool{}
		for l := range table.Items(Tools) {
			if seen[l.Exposed] {
				t.Fatalf("%q is exposed twice", l.Exposed)
			}
			seen[l.Exposed] = true
			if target, ok := table.Tool(l.Exposed); !ok || target.Server != l.Server || target.Name != l.Item.Name {
				t.Fatalf("%q goes to %+v, want %q of %q", l.Exposed, target, l.Item.Name, l.Server)
			}
			if n := table.naming; len(entries) > 1 && (plain(strings.Replace(l.Exposed, n.Separator, "", 1)) != strings.Replace(l.Exposed, n.Separator, "", 1) || len(l.Exposed) > n.Max) {
				t.Fatalf("%q breaks the rules", l.Exposed)
			}
		}
		if len(seen) != total || table.Len(Tools) != total {
			t.Fatalf("%d of %d tools are exposed, %d listed", len(seen), total, table.Len(Tools))
		}
		// Another order of servers and of tools, and only some of them up.
		again := rapid.Permutation(entries).Draw(t, "order")
		for i := range again {
			c := *again[i].Catalog
			c.Items[Tools] = rapid.Permutation(c.Items[Tools]).Draw(t, "tools")
			again[i].Catalog = &c
			again[i].Published = rapid.Bool().Draw(t, "up")
		}
		for key, name := range exposed(Merge(again, naming)) {
			if name != want[key] {
				t.Fatalf("%s is called %q, was %q", key, name, want[key])
			}
		}
	})
}

func TestRules(t *testing.T) {
	e := entry("s", "get_a", "get_b", "put_a", "admin/x", "hidden")
	e.Rules = config.Tools{
		Allow: []string{"get_*", "admin*", "hidden"}, Deny: []string{"*_b"}, Hide: []string{"hid[a-z]en"},
		Rename: map[string]string{"get_a": "fetch"}, Replay: map[string]config.Replay{"get_a": config.ReplayNever},
	}
	e.Replay = config.ReplayAlways
	table := Merge([]Entry{e, entry("t")}, Naming{})
	if got := table.Len(Tools); got != 2 {
		t.Errorf("%d tools are listed, want 2: %s", got, table.Array(Tools))
	}
	if strings.Contains(string(table.Array(Tools)), "hidden") {
		t.Error("a hidden tool is listed")
	}
	for name, want := range map[string]string{"s__fetch": "get_a", "s__hidden": "hidden", "s__get_b": "", "s__put_a": "", "s__get_a": "get_a"} {
		if target, ok := table.Tool(name); ok != (want != "") || target.Name != want {
			t.Errorf("%s goes to %+v, want %q", name, target, want)
		}
	}
	if target, _ := table.Tool("s__fetch"); target.Replay != config.ReplayNever {
		t.Errorf("replay of the tool is %v", target.Replay)
	}
	if target, _ := table.Tool("s__hidden"); target.Replay != config.ReplayAlways {
		t.Errorf("replay of the server is %v", target.Replay)
	}
	e.Rules = config.Tools{Deny: []string{"*"}}
	if table := Merge([]Entry{e}, Naming{}); table.Len(Tools) != 0 || string(table.Array(Tools)) != "[]" {
		t.Errorf(`deny "*" leaves %s`, table.Array(Tools))
	}
}
