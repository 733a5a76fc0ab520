package catalog

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/everline/everline/config"
)

func park3() []Entry {
	return []Entry{
		{Server: "git", Published: true, Catalog: offering("", `{"name":"createIssue","description":"Opens an issue in a repository.","inputSchema":{"type":"object","properties":{"title":{"type":"string"}}}}`,
			`{"name":"list_commits","description":"Shows the history."}`)},
		{Server: "mail", Published: true, Catalog: offering("", `{"name":"send","description":"Sends a message.","inputSchema":{"type":"object","properties":{"recipient":{"type":"string","description":"Who gets the letter"}}}}`)},
		{Server: "file", Published: true, Catalog: offering("", `{"name":"read","description":"Reads a file. 文件を読む"}`, `{"name":"secret","description":"issue issue issue"}`), Rules: rulesHide("secret")},
	}
}

func found(t *Table, query string, limit int) []string {
	var names []string
	for _, i := range NewFinder(t).Find(query, limit) {
		var tool struct{ Name string }
		if err := json.Unmarshal(t.Listed(Tools, i), &tool); err != nil {
			panic("bug: " + err.Error())
		}
		names = append(names, tool.Name)
	}
	return names
}

func TestFind(t *testing.T) {
	table := Merge(park3(), Naming{})
	for query, want := range map[string]string{
		"create issue": "git__createIssue", "issues": "git__createIssue", "who is the recipient": "mail__send",
		"letter": "mail__send", "the history of commits": "git__list_commits", "文": "file__read", "git__list_commits": "git__list_commits",
	} {
		if got := found(table, query, 3); len(got) == 0 || got[0] != want {
			t.Errorf("%q finds %v, want %s first", query, got, want)
		}
	}
	if got := found(table, "zebra", 3); got != nil {
		t.Errorf("nothing matches, but %v is found", got)
	}
	if got := found(table, "a issue file message", 2); len(got) != 2 {
		t.Errorf("with a limit of 2: %v", got)
	}
	if got := found(table, "issue", 9); slices.Contains(got, "file__secret") {
		t.Errorf("a hidden tool is found: %v", got)
	}
	if len(found(Merge(nil, Naming{}), "x", 3)) != 0 {
		t.Error("an empty table finds something")
	}
}

func TestSearchParams(t *testing.T) {
	if q, n, err := ReadSearch([]byte(`{"name":"search_tools","arguments":{"query":" x ","limit":1e9}}`)); q != " x " || n != 50 || err != nil {
		t.Errorf("%q %d %v", q, n, err)
	}
	for _, bad := range []string{`{}`, `{"arguments":{"query":""}}`, `{"arguments":{"query":1}}`, `[]`} {
		if _, _, err := ReadSearch([]byte(bad)); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
	name, inner, err := ReadCall([]byte(`{"_meta":{"progressToken":7},"name":"call_tool","arguments":{"name":"a__b","arguments":{"n":12345678901234567890, "x":[1.0]}},"z":1}`))
	if want := `{"_meta":{"progressToken":7},"name":"a__b","arguments":{"n":12345678901234567890, "x":[1.0]},"z":1}`; name != "a__b" || string(inner) != want || err != nil {
		t.Errorf("%q %s %v", name, inner, err)
	}
	for _, bad := range []string{`{}`, `{"arguments":{}}`, `{"arguments":{"name":"x","arguments":[]}}`, `{"arguments":[]}`, `x`} {
		if _, _, err := ReadCall([]byte(bad)); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
	for _, item := range SearchTools(make([]string, 99)) {
		if items, _, warnings, err := Read(Tools, []byte(`{"tools":[`+string(item.Raw)+`]}`)); err != nil || len(warnings) > 0 || items[0].Name != item.Name {
			t.Errorf("%s: %v %v", item.Raw, warnings, err)
		}
	}
}

type noMail struct{}

func (noMail) Server(s string) bool          { return s != "mail" }
func (noMail) Whole(s string) bool           { return s != "mail" }
func (noMail) Tool(s, _ string, _ bool) bool { return s != "mail" }

// readers has the tools of git that only read, and one that is hidden.
type readers struct{}

func (readers) Server(s string) bool                    { return s != "mail" }
func (readers) Whole(s string) bool                     { return s != "git" }
func (readers) Tool(_, name string, readOnly bool) bool { return readOnly || name == "secret" }

func TestOnlySomeTools(t *testing.T) {
	entries := []Entry{
		{Server: "git", Published: true, Rules: config.Tools{Hide: []string{"secret", "lost"}}, Catalog: offering("",
			`{"name":"lost"}`, `{"name":"read","annotations":{"readOnlyHint":true}}`, `{"name":"secret"}`, `{"name":"write"}`, `{"name":"look","annotations":{"readOnlyHint":true}}`)},
		{Server: "mail", Published: true, Catalog: offering("", `{"name":"send"}`)},
		{Server: "docs", Published: true, Catalog: offering("", `{"name":"find"}`)},
	}
	m := Merger{}
	all := m.Merge(entries)
	some := all.Only(readers{}, nil)
	alone := Merge([]Entry{{Server: "git", Published: true, Catalog: offering("", `{"name":"read","annotations":{"readOnlyHint":true}}`, `{"name":"look","annotations":{"readOnlyHint":true}}`)}, {Server: "docs", Published: true, Catalog: entries[2].Catalog}}, Naming{})
	if string(some.Array(Tools)) != string(alone.Array(Tools)) || some.Hash(Tools) != alone.Hash(Tools) {
		t.Errorf("%s\nwant\n%s", some.Array(Tools), alone.Array(Tools))
	}
	for name, want := range map[string]bool{"git__read": true, "git__secret": true, "git__look": true, "git__write": false, "git__lost": false, "mail__send": false, "docs__find": true} {
		if _, ok := some.Tool(name); ok != want {
			t.Errorf("%s is found: %v", name, ok)
		}
	}
	entries[2].Catalog = offering("", `{"name":"find2"}`)
	if next := m.Merge(entries).Only(readers{}, some); next.fragments[0] != some.fragments[0] || next.Hash(Tools) == some.Hash(Tools) {
		t.Error("what did not change is made again")
	}
}

func TestOnlyOfOneServer(t *testing.T) {
	one := Merge([]Entry{{Server: "git", Published: true, Catalog: offering("", `{"name":"write"}`, `{"name":"read","annotations":{"readOnlyHint":true}}`)}}, Naming{}).Only(readers{}, nil)
	if _, ok := one.Tool("read"); !ok {
		t.Error("a tool of the only server is not found")
	}
	for _, name := range []string{"write", "git__write"} {
		if _, ok := one.Tool(name); ok {
			t.Errorf("%s is found", name)
		}
	}
}

func TestOnlyKeepsNamesAndWhatDidNotChange(t *testing.T) {
	entries := park3()
	m := Merger{}
	all := m.Merge(entries)
	keep := noMail{}
	some := all.Only(keep, nil)
	if n := some.Len(Tools); n != 3 {
		t.Errorf("%d tools", n)
	}
	if _, ok := some.Tool("mail__send"); ok {
		t.Error("a tool of another group is found")
	}
	if target, ok := some.Tool("git__createIssue"); !ok || target.Server != "git" {
		t.Error("a tool of the group is not found")
	}
	entries[1].Catalog = offering("", `{"name":"other"}`)
	next := m.Merge(entries).Only(keep, some)
	if next.Hash(Tools) != some.Hash(Tools) || next.lists[Tools] != some.lists[Tools] {
		t.Error("a change of another server changes the group")
	}
	two := all.WithTools(SearchTools([]string{"git"}), nil)
	if again := next.WithTools(SearchTools([]string{"git"}), two); again.lists[Tools] != two.lists[Tools] || again.Len(Tools) != 2 {
		t.Error("the same two tools are encoded again")
	}
	if _, ok := two.Tool("mail__send"); !ok {
		t.Error("a tool that is not listed is not found")
	}
	if s := all.Sizes(Tools); s["mail"] != len(all.Listed(Tools, 2)) || s["git"] == 0 {
		t.Errorf("sizes %v", s)
	}
}

// What is hidden for an outage is not listed, but still found, so that a call
// hears of the outage.
func TestHiddenForAnOutage(t *testing.T) {
	entries := []Entry{
		{Server: "a", Published: true, Hidden: true, Away: &Away{State: "failed", Since: time.Unix(1, 0)}, Catalog: withResource("u://x", "u://{a}")},
		{Server: "b", Published: true, Catalog: withResource("u://y", "v://{a}")},
	}
	table := Merge(entries, Naming{})
	if table.Len(Tools) != 1 || table.Len(Resources) != 1 || strings.Contains(table.Instructions(), "## a") {
		t.Errorf("listed: %s %s %s", table.Array(Tools), table.Array(Resources), table.Instructions())
	}
	for _, uri := range []string{"u://x", "u://z"} {
		if target, ok := table.Resource(uri); !ok || target.Server != "a" {
			t.Errorf("%s goes to %+v", uri, target)
		}
	}
	if target, ok := table.Tool("a__t"); !ok || target.Server != "a" {
		t.Error("the tool is not found")
	}
	if name, ok := table.Exposed(Tools, "a", "t"); !ok || name != "a__t" {
		t.Errorf("its own name leads to %q", name)
	}
	if _, ok := table.Exposed(Tools, "b", "other"); ok {
		t.Error("a name that it has not is found")
	}
	entries[0].Hidden = false
	if table = Merge(entries, Naming{}); table.Len(Tools) != 2 {
		t.Error("it does not come back")
	}
}

func withResource(uri, template string) *Catalog {
	c := offering("Some text.", `{"name":"t"}`)
	c.Items[Resources] = []Item{{Name: uri, Raw: []byte(fmt.Sprintf(`{"uri":%q,"name":"x"}`, uri))}}
	c.Items[Templates] = []Item{{Name: template, Raw: []byte(fmt.Sprintf(`{"uriTemplate":%q,"name":"x"}`, template))}}
	return c
}

func BenchmarkFind20000(b *testing.B) {
	f := NewFinder(Merge(park(1000, 20), Naming{}))
	for b.Loop() {
		f.Find("tool_7 path of server-500", 10)
	}
}

func BenchmarkNewFinder20000(b *testing.B) {
	table := Merge(park(1000, 20), Naming{})
	for b.Loop() {
		NewFinder(table)
	}
}

func rulesHide(names ...string) config.Tools { return config.Tools{Hide: names} }
