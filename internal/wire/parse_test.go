package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestParseEnvelopes(t *testing.T) {
	for _, c := range []struct {
		name, frame, id, method, params, result, err string
	}{
		{name: "request", frame: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a" : 1.0}}`, id: "1", method: "tools/call", params: `{"a" : 1.0}`},
		{name: "string id", frame: `{"id":"x\"y","method":"ping"}`, id: `"x\"y"`, method: "ping"},
		{name: "null id", frame: `{"id":null,"method":"ping"}`, id: "null", method: "ping"},
		{name: "notification", frame: `{"method":"notifications/initialized"}`, method: "notifications/initialized"},
		{name: "unknown method", frame: `{"method":"x/é\n"}`, method: "x/é\n"},
		{name: "result", frame: `{"result":{"big":12345678901234567890},"id":7}`, id: "7", result: `{"big":12345678901234567890}`},
		{name: "null result", frame: `{"id":7,"result":null}`, id: "7", result: "null"},
		{name: "error", frame: `{"id":7,"error":{"code":-1,"message":"m"}}`, id: "7", err: `{"code":-1,"message":"m"}`},
		{name: "null error", frame: `{"id":7,"result":1,"error":null}`, id: "7", result: "1"},
		{name: "error and null result", frame: `{"id":7,"result":null,"error":{}}`, id: "7", err: "{}"},
		{name: "last wins", frame: `{"id":1,"id":2,"method":"a","method":"b"}`, id: "2", method: "b"},
		{name: "escaped key", frame: `{"\u0069d":1,"m\u0065thod":"p\u0069ng"}`, id: "1", method: "ping"},
		{name: "case counts", frame: `{"ID":1,"Method":"x"}`},
		{name: "unknown members", frame: `{"x":[{}],"id":1,"y":null,"method":"ping"}`, id: "1", method: "ping"},
		{name: "space and mark", frame: "\xef\xbb\xbf \r\n\t{ \"id\" : 1 , \"method\" : \"ping\" } \r\n", id: "1", method: "ping"},
		{name: "empty", frame: `{}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := Parse([]byte(c.frame))
			if err != nil {
				t.Fatal(err)
			}
			got := []string{string(m.ID), m.Method, string(m.Params), string(m.Result), string(m.Error)}
			want := []string{c.id, c.method, c.params, c.result, c.err}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	for frame, offset := range map[string]int{
		"":                        0,
		"\xef\xbb\xbf":            3,
		"{}x":                     2,
		"x{}":                     0,
		`{"a":1,}`:                7,
		`{"a" 1}`:                 5,
		`{"a":01}`:                6,
		`{"a":1.}`:                7,
		`{"a":-}`:                 6,
		`{"a":1e}`:                7,
		`{"a":"` + "\n" + `"}`:    6,
		`{"a":"12345678` + "\x1f": 14,
		`{"a":"\q"}`:              7,
		`{"a":"\u12g4"}`:          10,
		`{"a":tru}`:               8,
		`{"a":[1 2]}`:             8,
		`{"a":"`:                  6,
		`{"a":"\`:                 7,
		`[1,2`:                    4,
	} {
		_, err := Parse([]byte(frame))
		var bad *SyntaxError
		if !errors.As(err, &bad) {
			t.Errorf("%q: got %v, want a SyntaxError", frame, err)
		} else if bad.Offset != offset {
			t.Errorf("%q: offset %d, want %d (%v)", frame, bad.Offset, offset, err)
		}
	}
	for frame, want := range map[string]error{
		`[]`: ErrBatch, ` [{"id":1}] `: ErrBatch,
		`42`: ErrNotObject, `"x"`: ErrNotObject, `null`: ErrNotObject,
		`{"id":{}}`: ErrEnvelope, `{"id":true}`: ErrEnvelope, `{"method":1}`: ErrEnvelope, `{"method":""}`: ErrEnvelope,
	} {
		if _, err := Parse([]byte(frame)); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", frame, err, want)
		}
	}
	if m, _ := Parse([]byte(`{"id":3,"method":[]}`)); string(m.ID) != "3" {
		t.Errorf("the id of a bad envelope is lost: %q", m.ID)
	}
}

func TestParseDepth(t *testing.T) {
	nest := func(n int) []byte {
		return []byte(strings.Repeat("[", n) + strings.Repeat("]", n))
	}
	for _, n := range []int{1, maxDepth, maxDepth + 1, 1_000_000} {
		if got, want := Valid(nest(n)), json.Valid(nest(n)); got != want {
			t.Errorf("depth %d: %v, encoding/json says %v", n, got, want)
		}
		objects := []byte(strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n))
		if got, want := Valid(objects), json.Valid(objects); got != want {
			t.Errorf("depth %d of objects: %v, encoding/json says %v", n, got, want)
		}
	}
	deep := []byte(`{"result":` + strings.Repeat(`{"a":[`, 1_000_000))
	var bad *SyntaxError
	if _, err := Parse(deep); !errors.As(err, &bad) {
		t.Errorf("got %v, want a SyntaxError", err)
	}
}

func TestBatch(t *testing.T) {
	all, ok := Batch([]byte("\xef\xbb\xbf [ {\"id\":1} ,2, [3] ]\r\n"))
	parts := slices.Collect(all)
	if !ok || len(parts) != 3 || string(parts[0]) != `{"id":1}` || string(parts[1]) != "2" || string(parts[2]) != "[3]" {
		t.Errorf("got %q, %v", parts, ok)
	}
	if all, ok := Batch([]byte(`[]`)); !ok || slices.Collect(all) != nil {
		t.Errorf("empty: got %v", ok)
	}
	for _, bad := range []string{``, `{}`, `[1`, `[1]x`, `[1,]`} {
		if all, ok := Batch([]byte(bad)); ok || slices.Collect(all) != nil {
			t.Errorf("%q is taken for a batch", bad)
		}
	}
}

var seeds = []string{
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`, `{"id":"a","result":null}`,
	`{}x`, `[1,2,{"id":1}]`, "{\"a\":\"\x01\"}", `{"a":"\ud800\u0041\ud83d\ude00"}`, `{"id":1,"id":2}`, `-0.0e+10`,
	`{"method":"\u0070ing","ID":1}`, "\"\xff\xc3\"", `{"a":"12345678\"9"}`, ` {"error":{}, "result":null} `, `1e999`, "\xef\xbb\xbf{}",
}

func FuzzParse(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		valid := json.Valid(frame)
		if Valid(frame) != valid {
			t.Fatalf("Valid is %v, encoding/json says %v", !valid, valid)
		}
		msg, err := Parse(frame)
		var bad *SyntaxError
		bare := frame[afterBOM(frame):]
		if errors.As(err, &bad) == json.Valid(bare) {
			t.Fatalf("Parse: %v, encoding/json: %v", err, json.Valid(bare))
		}
		if err != nil {
			return
		}
		if msg.Repaired == utf8.Valid(frame) {
			t.Fatalf("Repaired is %v", msg.Repaired)
		}
		bare = bytes.ToValidUTF8(bare, []byte("\uFFFD"))
		var want map[string]json.RawMessage
		if err := json.Unmarshal(bare, &want); err != nil {
			t.Fatalf("Parse accepts what encoding/json refuses: %v", err)
		}
		sameRaw(t, "id", msg.ID, want["id"])
		sameRaw(t, "params", msg.Params, want["params"])
		if msg.Error != nil {
			sameRaw(t, "error", msg.Error, want["error"])
		} else {
			sameRaw(t, "result", msg.Result, want["result"])
		}
		var method string
		_ = json.Unmarshal(want["method"], &method)
		if method != msg.Method {
			t.Fatalf("method %q, want %q", msg.Method, method)
		}
		for key, val := range Members(bare) {
			if text, ok := Text(val); ok {
				var want string
				if json.Unmarshal(val, &want) != nil || text != want {
					t.Fatalf("%s: text %q, want %q", key, text, want)
				}
			}
		}
	})
}

func sameRaw(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if string(got) != string(want) {
		t.Fatalf("%s: %q, want %q", what, got, want)
	}
}

func short() []byte {
	return []byte(`{"jsonrpc":"2.0","id":1234,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}`)
}

// large is an answer with a text of 64 KiB.
func large(escaped bool) []byte {
	text := strings.Repeat("The quick brown fox jumps over the lazy dog and then some. ", 1200)[:64<<10]
	if escaped {
		text = strings.Repeat(`	if err != nil {\n\t\treturn \"no\", err\n}\n`[1:], 1600)[:64<<10-1] + "x"
		text = strings.TrimRight(text, `\`)
	}
	return []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + text + `"}]}}`)
}

func TestParseAllocations(t *testing.T) {
	for name, c := range map[string]struct {
		frame []byte
		want  float64
	}{
		"known method":   {short(), 0},
		"unknown method": {[]byte(`{"id":1,"method":"acme/unknown/method"}`), 1},
		"plain result":   {large(false), 0},
		"escaped result": {large(true), 0},
	} {
		got := testing.AllocsPerRun(100, func() {
			if _, err := Parse(c.frame); err != nil {
				t.Fatal(name, err)
			}
		})
		if got != c.want {
			t.Errorf("%s: %v allocations, want %v", name, got, c.want)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for _, c := range []struct {
		name  string
		frame []byte
	}{{"100B", short()}, {"64KiB", large(false)}, {"64KiBEscaped", large(true)}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.frame)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(c.frame); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestBeginsAnswer(t *testing.T) {
	for text, want := range map[string]bool{
		`{"jsonrpc":"2.0","id":1,"result":{"a":"b`:      true,
		"\xef\xbb\xbf {\"result\":":                     true,
		` { "id" : "x" , "error" : {"code":1}}`:         true,
		`{"jsonrpc":"2.0","id":1,"method":"result","pa`: false,
		`{"params":{"result":1},"result":1}`:            false,
		`{"x":{"result":1},"id":1}`:                     false,
		`{"jsonrpc":"2.0","id":"12`:                     false,
		`{"jsonrpc":"2.0","resul`:                       false,
		`{"id":}`:                                       false,
		`[{"result":1}]`:                                false,
		`{`:                                             false,
		``:                                              false,
	} {
		if got := BeginsAnswer([]byte(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// Strings are checked in steps of different sizes; each place must be looked at.
func TestValidSeesEachByte(t *testing.T) {
	const size = 400
	for pos := range size {
		for _, c := range []byte("\"\\\x00\x1f\x20\x21\x22\x23\x5b\x5d\x7f\x80\xff") {
			text := []byte(`["` + strings.Repeat("a", size) + `"]`)
			text[2+pos] = c
			if got, want := Valid(text), json.Valid(text); got != want {
				t.Errorf("%#x at %d: %v", c, pos, got)
			}
		}
	}
}

// A frame of broken text in strict hands would end the connection of whoever
// reads it, and with it the calls of others.
func TestParseMends(t *testing.T) {
	for frame, want := range map[string]string{
		"{\"id\":1,\"result\":\"a\xffb\"}":                   `"a` + "\uFFFD" + `b"`,
		"{\"id\":1,\"x\":\"\xed\xa0\x80\",\"result\":\"b\"}": `"b"`, // a surrogate, as some encoders write one
		"{\"id\":{},\"result\":\"\xc3\"}":                    `"` + "\uFFFD" + `"`,
	} {
		msg, _ := Parse([]byte(frame))
		if !msg.Repaired || string(msg.Result) != want {
			t.Errorf("%q: %q, repaired %v", frame, msg.Result, msg.Repaired)
		}
	}
	if msg, err := Parse([]byte(`{"id":1,"result":"größer \ud800"}`)); err != nil || msg.Repaired {
		t.Errorf("a good frame was repaired: %v, %v", msg.Repaired, err)
	}
}

func TestPick(t *testing.T) {
	names := [][]byte{[]byte("name"), []byte("task"), []byte("_meta")}
	for obj, want := range map[string]string{
		`{"name":"a","arguments":{"name":1,"Name":2},"_meta":{}}`: "",
		`{"name":"a","name":"a"}`:                                 "name",
		`{"name":"a","Name":"b"}`:                                 "name",
		`{"NAME":"a"}`:                                            "name",
		`{"n\u0061me":"a","name":"b"}`:                            "name",
		`{"name":null,"n\u0041me":"b"}`:                           "name",
		`{"taſ` + "\u212a" + `":1}`:                               "task", // letters that fold to s and k
		`{"task":1,"tasks":2,"nam":3,"meta":4,"tasſ":5}`:          "",
		`[]`: "",
	} {
		values := make([][]byte, len(names))
		if got := Pick([]byte(obj), names, values); got != want {
			t.Errorf("%s: %q, want %q", obj, got, want)
		}
	}
	values := make([][]byte, len(names))
	obj := []byte(` {"_meta": {} ,"x":1,"n\u0061me":"a"}`)
	if Pick(obj, names, values); string(values[0]) != `"a"` || values[1] != nil || string(values[2]) != "{}" {
		t.Errorf("%q", values)
	}
	if n := testing.AllocsPerRun(10, func() { clear(values); Pick(short(), names, values) }); n > 1 { // short's own
		t.Errorf("%v allocations", n)
	}
}
