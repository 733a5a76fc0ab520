package clients

import (
	"errors"
	"strings"
	"testing"

	"github.com/everline/everline/internal/conf/tree"
)

// FuzzDialects expands any text by the rules of each client.
func FuzzDialects(f *testing.F) {
	for _, s := range []string{"${A}", "$A$B", "{env:TOKEN}", "${env:TOKEN}", "${TOKEN:-x}", "${file:x}", "a${", "}${input:x}", "{file:}", "${/}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, format := range Formats()[1:] {
			r := File{
				Path:     "/home/u/f.json",
				Env:      func(name string) (string, bool) { return "value of " + name, name == "A" || name == "TOKEN" },
				ReadFile: func(string) (string, error) { return "", errors.New("no files here") },
				Home:     func() (string, error) { return "/home/u", nil },
				Warn:     func(tree.Pos, string, ...any) {},
			}.Open(format)
			got, err := r.Expand(&tree.Node{Kind: tree.String, Text: text}, nil)
			if err == nil && !strings.ContainsAny(text, "${") && got != text {
				t.Fatalf("%s: %q became %q", format, text, got)
			}
		}
	})
}
