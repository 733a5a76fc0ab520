package wire

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"testing"
)

func TestGet(t *testing.T) {
	obj := []byte(` {"a":1,"b":{"c":[ 1 ],"c":{"d":"x"}},"e\u0065":null,"a":2} `)
	for _, c := range []struct {
		path []string
		want string
	}{
		{nil, string(obj)},
		{[]string{"a"}, "2"},
		{[]string{"b", "c"}, `{"d":"x"}`},
		{[]string{"b", "c", "d"}, `"x"`},
		{[]string{"ee"}, "null"},
		{[]string{"none"}, ""},
		{[]string{"a", "b"}, ""},
		{[]string{"b", "c", "d", "e"}, ""},
	} {
		if got := Get(obj, c.path...); string(got) != c.want || (got == nil) != (c.want == "") {
			t.Errorf("%v: %q, want %q", c.path, got, c.want)
		}
	}
	for _, bad := range []string{``, `[]`, `{"a":1`, `{"a":}`, `null`} {
		if got := Get([]byte(bad), "a"); got != nil {
			t.Errorf("%q: got %q", bad, got)
		}
	}
}

func TestHas(t *testing.T) {
	const obj = ` {"a":null,"b":{"c":1},"\u0064":"x","a":[],"e":null} `
	for name, want := range map[string]bool{"a": true, "b": true, "c": false, "d": true, "e": false, "f": false} {
		if got := Has([]byte(obj), name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	for _, bad := range []string{``, `[]`, `{"b":1`, `{"b":1,`, `{"b":}`, `{"b`, `{"a":`, `null`} {
		if Has([]byte(bad), "a") {
			t.Errorf("%q has it", bad)
		}
	}
}

// What is behind the member is not looked at, however much it is.
func BenchmarkHas(b *testing.B) {
	result := Get(large(true), "result")
	b.ReportAllocs()
	for b.Loop() {
		if !Has(result, "content") {
			b.Fatal("it has none")
		}
	}
}

func BenchmarkGet(b *testing.B) {
	result := Get(large(true), "result")
	b.ReportAllocs()
	for b.Loop() {
		if Get(result, "content") == nil {
			b.Fatal("there is none")
		}
	}
}

func TestIterators(t *testing.T) {
	var got []string
	for k, v := range Members([]byte(` {"a": 1 ,"\u0062":[2], "c":{}} `)) {
		got = append(got, k+"="+string(v))
	}
	for v := range Elements([]byte(` [1, "a" ,[2] ]`)) {
		got = append(got, string(v))
	}
	want := []string{"a=1", "b=[2]", "c={}", "1", `"a"`, "[2]"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for range Members([]byte(`[1]`)) {
		t.Error("an array has no members")
	}
	for range Elements([]byte(`{}`)) {
		t.Error("an object has no elements")
	}
	for range Elements([]byte(`[1,2]`)) {
		break // must not go on
	}
}

func TestSet(t *testing.T) {
	for _, c := range []struct {
		obj  string
		path []string
		want string
	}{
		{``, []string{"a"}, `{"a":9}`},
		{`{}`, []string{"a", "b"}, `{"a":{"b":9}}`},
		{` { } `, []string{"a"}, ` { "a":9} `},
		{`{"x" : 1.0 }`, []string{"a"}, `{"x" : 1.0 ,"a":9}`},
		{`{"a": 1 , "b":2}`, []string{"a"}, `{"a": 9 , "b":2}`},
		{`{"a":{"b":{"z":0}},"c":1}`, []string{"a", "b", "c"}, `{"a":{"b":{"z":0,"c":9}},"c":1}`},
		{`{"a":{},"c":1}`, []string{"a", "b", "c"}, `{"a":{"b":{"c":9}},"c":1}`},
		{`{"a":null}`, []string{"a", "b"}, `{"a":{"b":9}}`},
		{`{"a":[1]}`, []string{"a", "b", "c"}, `{"a":{"b":{"c":9}}}`},
		{`null`, []string{"a"}, `{"a":9}`},
		{`{"a":1,"a":2}`, []string{"a"}, `{"a":1,"a":9}`},
		{`{"\u0061":1}`, []string{"a"}, `{"\u0061":9}`},
		{`{}`, []string{`q"`}, `{"q\"":9}`},
	} {
		obj := []byte(c.obj)
		got := Set(obj, []byte("9"), c.path...)
		if string(got) != c.want {
			t.Errorf("%s %v: %s, want %s", c.obj, c.path, got, c.want)
		}
		if string(obj) != c.obj {
			t.Errorf("%s was changed to %s", c.obj, obj)
		}
	}
	if got := Set([]byte(`{}`), []byte("9")); string(got) != "9" {
		t.Errorf("empty path: %s", got)
	}
}

func TestDelete(t *testing.T) {
	for _, c := range []struct {
		obj  string
		path []string
		want string
	}{
		{`{"a":1}`, []string{"a"}, `{}`},
		{`{"a":1, "b":2}`, []string{"a"}, `{"b":2}`},
		{`{ "a":1, "b":2 }`, []string{"b"}, `{ "a":1 }`},
		{`{"a":1,"b":2,"c":3}`, []string{"b"}, `{"a":1,"c":3}`},
		{`{"a":1,"b":2,"a":3}`, []string{"a"}, `{"b":2}`},
		{`{"x":{"a":1,"y":2},"z":3}`, []string{"x", "a"}, `{"x":{"y":2},"z":3}`},
		{`{"x":[1]}`, []string{"x", "a"}, `{"x":[1]}`},
		{`{"x":1}`, []string{"a"}, `{"x":1}`},
		{`{"x":1}`, nil, `{"x":1}`},
		{``, []string{"a"}, ``},
	} {
		obj := []byte(c.obj)
		got := Delete(obj, c.path...)
		if string(got) != c.want {
			t.Errorf("%s %v: %s, want %s", c.obj, c.path, got, c.want)
		}
		if string(obj) != c.obj {
			t.Errorf("%s was changed to %s", c.obj, obj)
		}
		if c.obj == c.want && len(obj) > 0 && &got[0] != &obj[0] {
			t.Errorf("%s was copied", c.obj)
		}
	}
}

// FuzzSet checks that the result is JSON, that the member is there, that all
// others are untouched, and that deleting it again leaves only those.
func FuzzSet(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s), "a", "b")
	}
	f.Add([]byte(`{"a":{"b":1, "c":2},"d":[1 ,2]}`), "a", "b")
	f.Fuzz(func(t *testing.T, obj []byte, outer, inner string) {
		if !json.Valid(obj) {
			return
		}
		before := bytes.Clone(obj)
		got := Set(obj, []byte(`{"new":[1]}`), outer, inner)
		if !bytes.Equal(before, obj) {
			t.Fatal("the input was changed")
		}
		if !json.Valid(got) {
			t.Fatalf("not JSON: %s", got)
		}
		name := string([]rune(outer))
		if v := Get(got, name, string([]rune(inner))); string(v) != `{"new":[1]}` {
			t.Fatalf("%s: reads back as %q", got, v)
		}
		sameOthers(t, obj, got, name)
		if gone := Delete(got, name); !json.Valid(gone) || Get(gone, name) != nil {
			t.Fatalf("after Delete: %s", gone)
		} else {
			sameOthers(t, got, gone, name)
		}
	})
}

func sameOthers(t *testing.T, a, b []byte, except string) {
	t.Helper()
	list := func(obj []byte) (all []string) {
		for k, v := range Members(obj) {
			if k != except {
				all = append(all, k+"="+string(v))
			}
		}
		return all
	}
	if x, y := list(a), list(b); !reflect.DeepEqual(x, y) {
		t.Fatalf("other members changed: %q -> %q", x, y)
	}
}

func TestOneLine(t *testing.T) {
	same := []byte(`{"a" : "b c"}`)
	if got := OneLine(same); &got[0] != &same[0] {
		t.Error("copied without need")
	}
	for input, want := range map[string]string{
		"{\r\n  \"a b\" : \"c  \\\" d\\\\\" ,\n\t\"e\": [1 , 2]\n}\n": `{"a b":"c  \" d\\","e":[1,2]}`,
		"\"bro\nken\"": `"bro ken"`,
	} {
		if got := OneLine([]byte(input)); string(got) != want {
			t.Errorf("%q: %q, want %q", input, got, want)
		}
	}
}

func FuzzOneLine(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s + "\n"))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got := OneLine(b)
		if bytes.ContainsAny(got, "\r\n") {
			t.Fatalf("%q still has a line end", got)
		}
		if !json.Valid(b) {
			return
		}
		var x, y bytes.Buffer
		if json.Compact(&x, b) != nil || json.Compact(&y, got) != nil || !bytes.Equal(x.Bytes(), y.Bytes()) {
			t.Fatalf("%q -> %q", b, got)
		}
	})
}

func TestFields(t *testing.T) {
	obj := []byte(` { "a" : 1 ,"b\u0020":{"c":[2]}, "a":null} `)
	var got []string
	for f := range Fields(obj) {
		if string(obj[f.Start:f.End]) != string(f.Value) {
			t.Errorf("%s: the place of %s is that of %s", f.Name, f.Value, obj[f.Start:f.End])
		}
		got = append(got, f.Name+"|"+string(f.Key)+"|"+string(f.Text))
	}
	want := []string{`a|"a"|"a" : 1`, `b |"b\u0020"|"b\u0020":{"c":[2]}`, `a|"a"|"a":null`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for range Fields([]byte(`[1]`)) {
		t.Error("an array has fields")
	}
}

func TestValueEnd(t *testing.T) {
	text := []byte(`{"a":"x\"y","b":-1.5e3,"c":[{}]}`)
	for pos, want := range map[int]int{0: len(text), 5: 11, 16: 22, 27: 31, 11: -1, len(text): -1} {
		if got := ValueEnd(text, pos); got != want {
			t.Errorf("the value at %d ends at %d, want %d", pos, got, want)
		}
	}
}
