package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/everline/everline/internal/mcp"
)

func FuzzRead(f *testing.F) {
	for _, s := range []string{
		`{"name":"x","inputSchema":{"type":"object"}}`, `{"name":"x","inputSchema":null,"annotations":{"readOnlyHint":null}}`,
		`{"name":"x","inputSchema":{"properties":{"required":["a"],"b":{"type":["int",null],"items":[{}]}},"anyOf":[],"not":{"not":1}}}`,
		`{"name":"good"}`, `{"uri":"a","name":"x","icons":[{"src":"\u0022"},3]}`, `{"\"":{},"name":"\\","name":"b"}`, `7`, `[[],{}]`, ` { } `, `{}x`,
		`{"name":"h","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}}`,
	} {
		f.Add([]byte(s), uint8(0))
		f.Add([]byte(s), uint8(2))
	}
	f.Add([]byte(`{"name":"`+strings.Repeat("\xf0", 300)+`"}`), uint8(1))
	f.Fuzz(func(t *testing.T, odd []byte, kind uint8) {
		k := Kind(kind % uint8(len(Kinds)))
		_, _, _, _ = Read(k, odd) // must not panic
		if !json.Valid(odd) {
			return
		}
		sound := fmt.Sprintf(`{%q:"good:good","title":"good","inputSchema":{"type":"object"},"n":1.00}`, identifier(k))
		if k == Resources || k == Templates {
			sound = strings.Replace(sound, "title", "name", 1)
		}
		page := fmt.Sprintf(`{%q:[%s,%s]}`, k, sound, odd)
		items, _, _, err := Read(k, []byte(page))
		if err != nil || len(items) == 0 || string(items[0].Raw) != sound {
			t.Fatalf("a good item is lost beside %s: %v, %v", odd, items, err)
		}
		for _, i := range items {
			if !json.Valid(i.Raw) || i.Name == "" {
				t.Fatalf("%q: %s from %s", i.Name, i.Raw, odd)
			}
			again, _, warnings, err := Read(k, []byte(fmt.Sprintf(`{%q:[%s]}`, k, i.Raw)))
			if err != nil || len(again) != 1 || !bytes.Equal(again[0].Raw, i.Raw) {
				t.Fatalf("read again, %s gives %v, %q, %v", i.Raw, again, warnings, err)
			}
		}
		e := []Entry{{Server: "s", Published: true, Catalog: &Catalog{}, Away: &Away{State: "failed"}}, {Server: "t"}}
		e[0].Catalog.Items[k] = items
		table := Merge(e, Naming{})
		var list []map[string]json.RawMessage
		if err := json.Unmarshal(table.Array(k), &list); err != nil || len(list) != len(items) {
			t.Fatalf("%s: %v", table.Array(k), err)
		}
		for i, l := range list {
			var meta map[string]json.RawMessage
			if json.Unmarshal(l["_meta"], &meta) != nil || meta[mcp.MetaAvailability] == nil {
				t.Fatalf("item %d has no mark: %s", i, table.Array(k))
			}
		}
	})
}

func FuzzStore(f *testing.F) {
	f.Add(encode("k", full()), "name", []byte(`{}`), uint64(1), int64(0), true)
	f.Add([]byte(magic), "", []byte(nil), uint64(0), int64(-1), false)
	f.Fuzz(func(t *testing.T, file []byte, name string, raw []byte, gen uint64, at int64, flag bool) {
		// Whatever the file holds, nothing panics, also behind a right checksum.
		_, _ = decode("k", file)
		if len(file) >= bodyAt {
			_, _ = decode("k", seal(bytes.Clone(file)))
		}
		want := Saved{Gen: gen, Era: raw, Catalog: &Catalog{Instructions: name, ServerInfo: raw, Warnings: [4][]string{{name}}}}
		if at != noTime {
			want.Catalog.At = time.Unix(0, at)
		}
		for k := range want.Catalog.Items {
			want.Catalog.Items[k] = []Item{{
				Name: name, Raw: raw, Hints: Hints{ReadOnly: flag}, BadHeaders: name,
				Headers: []mcp.HeaderParam{{Path: []string{name, name}, Name: name}},
			}}
		}
		got, err := decode(name, encode(name, want))
		if err != nil || !equal(got, &want) {
			t.Fatalf("got %+v, %v\nwant %+v", got, err, want)
		}
	})
}

func FuzzNames(f *testing.F) {
	f.Add("github", "search", "github", "a.b", "__")
	f.Add("a", "b__c", "a__b", "c", "")
	f.Add("a_", "b", "a", "_b", "_")
	f.Add("é", strings.Repeat("x", 80), "è", strings.Repeat("x", 80), "-")
	f.Fuzz(func(t *testing.T, s1, t1, s2, t2, separator string) {
		entries := []Entry{entry(s1, t1, t2), entry(s2, t1, t2)}
		if s1 == s2 || t1 == t2 {
			return
		}
		table := Merge(entries, Naming{Separator: separator})
		seen := map[string]bool{}
		for l := range table.Items(Tools) {
			target, ok := table.Tool(l.Exposed)
			if !ok || target.Server != l.Server || target.Name != l.Item.Name || seen[l.Exposed] || len(l.Exposed) > 64 {
				t.Fatalf("%q of %q is exposed as %q, which goes to %+v", l.Item.Name, l.Server, l.Exposed, target)
			}
			seen[l.Exposed] = true
		}
		if len(seen) != 4 {
			t.Fatalf("%d of 4 tools are exposed", len(seen))
		}
	})
}

func FuzzLock(f *testing.F) {
	var l *Lock
	f.Add(l.With("a", PinsOf(offering("x", send))).encode(), "in", "name", []byte(`{"name":"x"}`))
	f.Add([]byte(`{"version":1,"servers":{"":{"instructions":{"text":7}}}}`), "\u200b\ufffd", "\"\u202e", []byte(`"\ud800\u200b"`))
	f.Fuzz(func(t *testing.T, file []byte, instructions, name string, raw []byte) {
		_, _ = parseLock(file) // must not panic
		if !json.Valid(raw) || !utf8.ValidString(name) || !utf8.ValidString(instructions) {
			return
		}
		c := &Catalog{Instructions: instructions}
		c.Items[Tools] = []Item{{Name: name, Raw: raw}}
		want := (*Lock)(nil).With(name, PinsOf(c))
		got, err := parseLock(want.encode())
		if err != nil {
			t.Fatalf("%v in\n%s", err, want.encode())
		}
		if ch := want.Server(name).Compare(got.Server(name)); ch != nil {
			t.Fatalf("read back, %+v differs in\n%s", ch, want.encode())
		}
	})
}
