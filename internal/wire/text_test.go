package wire

import (
	"encoding/json"
	"testing"
)

func TestText(t *testing.T) {
	for raw, want := range map[string]string{
		`"plain"`: "plain", ` "sp" `: "sp", `""`: "",
		`"\"\\\/\b\f\n\r\t"`: "\"\\/\b\f\n\r\t", `"\u00e9\uD83D\uDE00"`: "é😀",
		`"\ud83d"`: "\ufffd", `"\ud83dx"`: "\ufffdx", `"\ud83d\u0041"`: "\ufffdA", `"\ude00\ud83d\ude00"`: "\ufffd😀",
		"\"a\xffb\"": "a\ufffdb",
	} {
		if got, ok := Text([]byte(raw)); !ok || got != want {
			t.Errorf("%s: %q, %v, want %q", raw, got, ok, want)
		}
	}
	for _, raw := range []string{``, `x`, `"`, `"a`, `"a"b`, `1`, `null`, `"\x"`} {
		if got, ok := Text([]byte(raw)); ok {
			t.Errorf("%s is taken for a string: %q", raw, got)
		}
	}
}

func TestInt(t *testing.T) {
	for raw, want := range map[string]int64{
		"0": 0, "-0": 0, "7": 7, " 7 ": 7, "-7": -7, "1.0": 1, "1e2": 100, "9223372036854775807": 1<<63 - 1,
		"-9223372036854775808": -1 << 63, "123456789012345678": 123456789012345678,
	} {
		if got, ok := Int([]byte(raw)); !ok || got != want {
			t.Errorf("%s: %d, %v", raw, got, ok)
		}
	}
	for _, raw := range []string{"", "01", "1.5", "1e400", "9223372036854775808", `"1"`, "null", "+1", "1 2", "0x1", "1_0", "NaN"} {
		if got, ok := Int([]byte(raw)); ok {
			t.Errorf("%s is taken for %d", raw, got)
		}
	}
}

func TestKinds(t *testing.T) {
	if v, ok := Bool([]byte(" true ")); !v || !ok {
		t.Error("true")
	}
	if v, ok := Bool([]byte("false")); v || !ok {
		t.Error("false")
	}
	if _, ok := Bool([]byte("1")); ok {
		t.Error("1 is no bool")
	}
	if !IsNull([]byte(" null")) || IsNull(nil) || !IsObject([]byte(" {}")) || IsObject(nil) || !IsArray([]byte("[]")) || IsArray([]byte("{}")) {
		t.Error("IsNull, IsObject or IsArray")
	}
}

func TestIDs(t *testing.T) {
	for _, raw := range []string{`5`, `"5"`, `5.0`, `"5.0"`, `" 5"`, `0.5e1`} {
		if n, ok := ParseID([]byte(raw)); !ok || n != 5 {
			t.Errorf("ParseID(%s) = %d, %v", raw, n, ok)
		}
	}
	for _, raw := range []string{``, `null`, `"x"`, `""`, `5.5`, `{}`, `"5`} {
		if n, ok := ParseID([]byte(raw)); ok {
			t.Errorf("ParseID(%s) = %d", raw, n)
		}
	}
}

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "plain", "<&>\u2028\x00\x1f\x7f", "\xff\xed\xa0\x80", "\"\\\n\r\t", "é😀\ufffd"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		raw := AppendString([]byte("x"), s)[1:]
		var viaJSON string
		if err := json.Unmarshal(raw, &viaJSON); err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		want := string([]rune(s)) // broken bytes become U+FFFD
		if own, ok := Text(raw); !ok || own != want || viaJSON != want {
			t.Fatalf("%q: own %q, encoding/json %q, want %q", raw, own, viaJSON, want)
		}
	})
}

func TestAppend(t *testing.T) {
	for want, got := range map[string][]byte{
		`x{"jsonrpc":"2.0","id":-5,"method":"a\"b","params":{ }}`:                         AppendRequest([]byte("x"), -5, `a"b`, []byte(`{ }`)),
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`:                                        AppendRequest(nil, 1, "ping", nil),
		`{"jsonrpc":"2.0","method":"n","params":[1]}`:                                     AppendNotification(nil, "n", []byte(`[1]`)),
		`{"jsonrpc":"2.0","method":"n"}`:                                                  AppendNotification(nil, "n", nil),
		`{"jsonrpc":"2.0","id":"a","result":{"b":1}}`:                                     AppendResult(nil, []byte(`"a"`), []byte(`{"b":1}`)),
		`{"jsonrpc":"2.0","id":null,"result":{}}`:                                         AppendResult(nil, nil, nil),
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"<m>","data":{"x":1}}}`: AppendError(nil, []byte("1"), -32601, "<m>", []byte(`{"x":1}`)),
		`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}`:                     AppendError(nil, nil, 1, "", nil),
		`{"jsonrpc":"2.0","id":1,"error":{ "odd":1 }}`:                                    AppendRawError(nil, []byte("1"), []byte(`{ "odd":1 }`)),
	} {
		if string(got) != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestDecodeError(t *testing.T) {
	code, message := DecodeError([]byte(`{"message":"a\nb","data":{"code":1},"code":-32000.0}`))
	if code != -32000 || message != "a\nb" {
		t.Errorf("%d %q", code, message)
	}
	if code, message := DecodeError([]byte(`"broken"`)); code != 0 || message != "" {
		t.Errorf("%d %q", code, message)
	}
}
