package redact

import (
	"cmp"
	"encoding/base64"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Hidden stands where a secret value would.
const Hidden = "***"

// shortestSecret is the length in bytes below which a value is not looked for
// in foreign text: hiding every "1" or "true" would destroy what it protects.
const shortestSecret = 6

// shortestSure is the length in bytes below which even a password is not looked
// for in foreign text.
const shortestSure = 3

// Hider returns a function that replaces each of the values by "***", in any of
// their forms, and the secrets of every URL. Of these URLs it hides all values
// of the query. Short values are replaced only where they stand alone.
func (f Findings) Hider(urls []string) func(text string) string {
	var long, short []string
	queries := map[string]string{}
	for _, raw := range urls {
		if query := "?" + queryOf(raw); len(query) > shortestSecret {
			queries[query] = hideQuery(query, func(string, string) bool { return true })
		}
		user, _ := userOf(raw)
		if plain, err := url.PathUnescape(user); err == nil && strings.Contains(plain, ":") {
			long = append(long, base64.StdEncoding.EncodeToString([]byte(plain))) // as Authorization: Basic has it
		}
	}
	for v, sure := range f {
		switch {
		case len(v) >= shortestSecret:
			long = append(long, forms(v)...)
			long = append(long, v)
		case sure && len(v) >= shortestSure:
			short = append(short, v)
		}
	}
	replace := replacer(long, queries)
	slices.SortFunc(short, longestFirst)
	return func(text string) string {
		text = Queries(replace(text))
		for _, v := range short {
			text = hideWord(text, v)
		}
		return text
	}
}

// hideWord hides a word where no letter or digit is beside it.
func hideWord(text, word string) string {
	var b strings.Builder
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			b.WriteString(text[from:])
			return b.String()
		}
		i += from
		end := i + len(word)
		b.WriteString(text[from:i])
		if i > 0 && isWord(text[i-1]) || end < len(text) && isWord(text[end]) {
			b.WriteString(word)
		} else {
			b.WriteString(Hidden)
		}
		from = end
	}
}

func isWord(c byte) bool {
	return c == '_' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// replacer returns a function that replaces each of the values by "***", and
// others by what they are to become.
func replacer(values []string, others map[string]string) func(text string) string {
	all := slices.AppendSeq(values, maps.Keys(others))
	slices.SortFunc(all, longestFirst)
	pairs := make([]string, 0, 2*len(all))
	for _, v := range slices.Compact(all) {
		pairs = append(pairs, v, cmp.Or(others[v], Hidden))
	}
	return strings.NewReplacer(pairs...).Replace
}

func longestFirst(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) }
