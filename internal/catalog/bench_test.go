package catalog

import (
	"fmt"
	"strings"
	"testing"
)

// sized is a catalog of n tools of about 500 bytes each.
func sized(n int) *Catalog {
	c := &Catalog{}
	text := strings.Repeat("what it does ", 25)
	for i := range n {
		name := fmt.Sprintf("tool_%d", i)
		raw := fmt.Sprintf(`{"name":%q,"description":%q,"inputSchema":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}`, name, text)
		c.Items[Tools] = append(c.Items[Tools], Item{Name: name, Raw: []byte(raw)})
	}
	return c
}

func park(servers, tools int) []Entry {
	entries := make([]Entry, servers)
	for i := range entries {
		entries[i] = Entry{Server: fmt.Sprintf("server-%d", i), Published: true, Catalog: sized(tools)}
	}
	return entries
}

func BenchmarkMergeCold(b *testing.B) {
	entries := park(1000, 20)
	b.ReportAllocs()
	for b.Loop() {
		Merge(entries, Naming{}).Array(Tools)
	}
}

func BenchmarkMergeOneChanged(b *testing.B) {
	entries := park(1000, 20)
	versions := [2]*Catalog{sized(20), sized(21)}
	var m Merger
	m.Merge(entries)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		entries[500].Catalog = versions[i%2]
		m.Merge(entries)
	}
}

func BenchmarkMergeOneChangedAndListed(b *testing.B) {
	entries := park(1000, 20)
	versions := [2]*Catalog{sized(20), sized(21)}
	var m Merger
	m.Merge(entries)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		entries[500].Catalog = versions[i%2]
		m.Merge(entries).Array(Tools)
	}
}

func BenchmarkArray1000Tools(b *testing.B) {
	table := Merge(park(50, 20), Naming{})
	table.Array(Tools)
	b.ReportAllocs()
	for b.Loop() {
		if len(table.Array(Tools)) == 0 {
			b.Fatal("empty")
		}
	}
}

func BenchmarkTool(b *testing.B) {
	table := Merge(park(1000, 20), Naming{})
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := table.Tool("server-500__tool_7"); !ok {
			b.Fatal("not found")
		}
	}
}

func BenchmarkRead200Tools(b *testing.B) {
	page := []byte(`{"tools":` + string(Merge([]Entry{{Server: "s", Published: true, Catalog: sized(200)}}, Naming{}).Array(Tools)) + `}`)
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		if items, _, _, err := Read(Tools, page); err != nil || len(items) != 200 {
			b.Fatal(err)
		}
	}
}

// Tools as servers really have them: references, patterns, output schemas.
func BenchmarkRead1000RichTools(b *testing.B) {
	const schema = `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{` +
		`"path":{"type":"string","description":"Where it is, below the root of what the server may see","pattern":"^[\\w./-]+$","minLength":1},` +
		`"mode":{"enum":["read","write"],"default":"read"},"limit":{"type":"integer","minimum":1,"maximum":1000},` +
		`"filter":{"anyOf":[{"$ref":"#/$defs/Filter"},{"type":"null"}]},"tags":{"type":"array","items":{"type":"string"}}},` +
		`"$defs":{"Filter":{"type":"object","properties":{"field":{"type":"string"},"not":{"$ref":"#/$defs/Filter"}}}},` +
		`"required":["path"],"additionalProperties":false}`
	var all []string
	for i := range 1000 {
		all = append(all, fmt.Sprintf(`{"name":"tool_%d","description":%q,"annotations":{"readOnlyHint":true},"inputSchema":%s,"outputSchema":%[3]s}`,
			i, strings.Repeat("what it does ", 20), schema))
	}
	page := []byte(`{"tools":[` + strings.Join(all, ",") + `]}`)
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		if items, _, said, err := Read(Tools, page); err != nil || len(items) != 1000 || said != nil {
			b.Fatal(err, said)
		}
	}
}

func TestLookupsDoNotAllocate(t *testing.T) {
	table := Merge(park(3, 3), Naming{})
	table.Array(Tools)
	if n := testing.AllocsPerRun(100, func() {
		if _, ok := table.Tool("server-1__tool_2"); !ok || len(table.Array(Tools)) == 0 {
			t.Error("not found")
		}
	}); n != 0 {
		t.Errorf("a lookup allocates %v times", n)
	}
}
