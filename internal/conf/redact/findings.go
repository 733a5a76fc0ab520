// Package redact finds what is a secret in texts, and hides it. It decides by
// names, places and shapes, and asks nobody whether it is right.
package redact

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Findings are values that must not be shown. One that is sure is a secret by
// its place, a password in a URL, so that it is hidden however short it is; the
// others are only likely to be one.
type Findings map[string]bool

// Add takes a value; nothing where it is empty.
func (f Findings) Add(v string, sure bool) {
	if v != "" {
		f[v] = f[v] || sure && !slices.Contains(plainWords, strings.ToLower(v))
	}
}

// plainWords are values of settings, whatever these are called.
var plainWords = []string{"true", "false", "none", "null", "auto", "yes", "off", "default"}

// Named takes a value that has a name.
func (f Findings) Named(name, v string) {
	sure := IsSecretName(name)
	f.Add(v, sure)
	f.Inside(v)
	if _, alone, ok := strings.Cut(v, " "); ok && sure {
		f.Add(strings.TrimSpace(alone), true) // "Bearer …"
	}
}

// Inside takes the secrets in a text that has others around them.
func (f Findings) Inside(text string) {
	for _, v := range InURL(text) {
		f.Add(v, true)
	}
	for _, at := range URLsIn(text) {
		for _, v := range InURL(text[at[0]:at[1]]) {
			f.Add(v, true)
		}
	}
	for _, m := range assignment.FindAllStringSubmatch(text, -1) {
		if IsSecretName(m[1]) {
			f.Add(strings.Trim(m[2], `"'`), true)
		}
	}
	if m := atHost.FindStringSubmatch(text); m != nil {
		f.Add(m[1], true)
	}
	if word, alone, ok := strings.Cut(text, " "); ok && strings.EqualFold(word, "basic") {
		f.basic(strings.TrimSpace(alone))
	}
	f.json(text)
}

var (
	// assignment is a part of a connection string, or an argument like -e NAME=value.
	assignment = regexp.MustCompile(`([A-Za-z][A-Za-z0-9_.-]*)\s*[=]\s*("[^"]*"|'[^']*'|[^\s;&,"']+)`)
	// atHost is what some databases take in place of a URL: user:password@tcp(host).
	atHost = regexp.MustCompile(`^[^\s:/@]+:(\S+)@[a-z]*\(`)
	// header is a header as curl and its like take it.
	header = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9-]*):\s*(\S.*)$`)
)

// basic takes the user and password of an Authorization of that kind.
func (f Findings) basic(encoded string) {
	plain, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return
	}
	f.Add(encoded, true)
	f.Add(string(plain), true)
	if _, password, ok := strings.Cut(string(plain), ":"); ok {
		f.Add(password, true)
	}
}

// json takes the secrets of a text that is JSON, as some servers take their headers.
func (f Findings) json(text string) {
	text = strings.TrimSpace(text)
	var v any
	if text == "" || text[0] != '{' && text[0] != '[' || json.Unmarshal([]byte(text), &v) != nil {
		return
	}
	var walk func(name string, v any)
	walk = func(name string, v any) {
		switch v := v.(type) {
		case string:
			f.Named(name, v)
		case []any:
			for _, e := range v {
				walk(name, e)
			}
		case map[string]any:
			for name, e := range v {
				walk(name, e)
			}
		}
	}
	walk("", v)
}

// Args takes the secrets of a command's arguments.
func (f Findings) Args(args []string) {
	for i, arg := range args {
		if v, ok := Arg(args, i); ok {
			f.Add(v, true)
			f.Named("token", v)
		}
		f.Inside(arg)
	}
}

// Arg gives the value of an argument that its name says to be a secret:
// --token=VALUE, NAME_KEY=VALUE, "X-Api-Key: VALUE", or the one behind --token.
func Arg(args []string, i int) (string, bool) {
	flag, value, pair := strings.Cut(args[i], "=")
	if pair && IsSecretName(strings.TrimLeft(flag, "-")) && !strings.ContainsAny(flag, " /:?") {
		return value, value != ""
	}
	if m := header.FindStringSubmatch(args[i]); m != nil && IsSecretName(m[1]) {
		return m[2], true
	}
	if i == 0 || args[i] == "" || strings.HasPrefix(args[i], "-") {
		return "", false
	}
	before := args[i-1]
	return args[i], strings.HasPrefix(before, "-") && !strings.Contains(before, "=") && IsSecretName(strings.TrimLeft(before, "-"))
}

// Inside are those secrets of a text that are sure.
func Inside(text string) []string {
	f := Findings{}
	f.Inside(text)
	maps.DeleteFunc(f, func(_ string, sure bool) bool { return !sure })
	return slices.Sorted(maps.Keys(f))
}

// Values are the findings that are long enough to be told from other text; the
// longest first, so that replacing them in order never leaves a part of one.
func (f Findings) Values() []string {
	all := slices.Collect(maps.Keys(f))
	all = slices.DeleteFunc(all, func(v string) bool { return len(v) < shortestSecret && (!f[v] || len(v) < shortestSure) })
	slices.SortFunc(all, longestFirst)
	return all
}
