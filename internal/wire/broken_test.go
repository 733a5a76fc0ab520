package wire

import (
	"fmt"
	"strings"
	"testing"
)

func remnants(frame string) string {
	var all []string
	for r := range Remnants([]byte(frame)) {
		switch {
		case r.Answer:
			all = append(all, fmt.Sprint(r.ID))
		case r.Nameless:
			all = append(all, "nameless")
		default:
			all = append(all, "none")
		}
	}
	return strings.Join(all, " ")
}

// What broken frames tell of the requests that they were to answer.
func TestRemnants(t *testing.T) {
	for frame, want := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"result":{"v":NaN}}`:                                     "7",
		`{"jsonrpc":"2.0","result":{"v":Infinity,"id":8},"id":7}`:                         "7",
		`{"id":"7","error":{"code":,"message":"x"}}`:                                      "7",
		`{"jsonrpc":"2.0","id":7,"result":{"content":[`:                                   "7",
		`{"jsonrpc":"2.0","id":7`:                                                         "none", // 7 may be cut
		`{"jsonrpc":"2.0","result":{"content":[{"id":7}`:                                  "nameless",
		`{"jsonrpc":"2.0","id":7,"result":{}} x`:                                          "7",
		`{"jsonrpc":"2.0","id":7,"result":{}}{"jsonrpc":"2.0","id":8,"result":nan}`:       "7 8",
		`[{"id":7,"result":NaN},{"id":8,"result":{}},{"method":"m","params":{"id":9,x}}]`: "7 8 none",
		`{"jsonrpc":"2.0","id":7,"method":"ping","params":{x}}`:                           "none",
		`{"jsonrpc":"2.0","id":7,"method":5,"result":{}}`:                                 "7",
		`{"level":"info","id":7,"msg":"said "hi"}`:                                        "none",
		`{"jsonrpc":"2.0","result":{"text":"said "hi"},"id":7}`:                           "7", // an odd number of quotes
		`{"jsonrpc":"2.0","id":{"a":7},"result":x}`:                                       "none",
		"\xef\xbb\xbf" + ` {"id":7,"result":NaN}`:                                         "7",
		`sent {"jsonrpc":"2.0","id":7,"result":NaN}`:                                      "",
		`{`:   "none",
		``:    "",
		`}}]`: "",
		`"`:   "",
	} {
		if got := remnants(frame); got != want {
			t.Errorf("%s: %q, want %q", frame, got, want)
		}
	}
}

func FuzzRemnants(f *testing.F) {
	f.Add([]byte(`[{"id":7,"result":NaN},{"id":"8","method":"m"}]{"id":9`))
	f.Fuzz(func(t *testing.T, frame []byte) {
		n := 0
		for r := range Remnants(frame) {
			if n++; n > len(frame) || len(r.Raw) > len(frame) {
				t.Fatalf("%q: %d messages, the last of %d bytes", frame, n, len(r.Raw))
			}
		}
	})
}
