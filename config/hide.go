package config

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/everline/everline/internal/conf/expand"
	"github.com/everline/everline/internal/conf/tree"
)

// longSecret is the length in bytes from which a value in the query of a URL
// is taken for a secret, whatever its name.
const longSecret = 20

// urlSecrets are the values in a URL that let somebody in: its password, or
// what stands alone in that place, and what its query names as a secret or is
// as long as one; as written and decoded.
func urlSecrets(raw string) []string {
	var all []string
	add := func(v string, decode func(string) (string, error)) {
		all = append(all, v)
		if plain, err := decode(v); err == nil && plain != v {
			all = append(all, plain)
		}
	}
	if user, ok := userOf(raw); ok {
		name, password, both := strings.Cut(user, ":")
		if !both {
			password = name
		}
		add(password, url.PathUnescape)
	}
	for pair := range strings.SplitSeq(queryOf(raw), "&") {
		name, value, _ := strings.Cut(pair, "=")
		if isSecretName(name) || len(value) >= longSecret {
			add(value, url.QueryUnescape)
		}
	}
	if strings.HasPrefix(raw, "http") {
		for _, segment := range strings.Split(raw, "/")[1:] {
			if segment, _, _ = strings.Cut(segment, "?"); tokenSegment.MatchString(segment) && strings.ContainsAny(segment, "0123456789") {
				all = append(all, segment)
			}
		}
	}
	return slices.DeleteFunc(all, func(v string) bool { return v == "" })
}

// tokenSegment is a part of a path that is made by a machine: some services let
// in whoever knows it.
var tokenSegment = regexp.MustCompile(`^([A-Za-z0-9_=]{24,}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$`)

// userOf is what stands before the host of a URL. Passwords of databases are
// often written without the escapes that they need.
func userOf(raw string) (string, bool) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return "", false
	}
	end := strings.IndexAny(rest, "/?#")
	web := scheme == "http" || scheme == "https"
	if !web {
		end = strings.IndexByte(rest, '?')
	}
	if end >= 0 {
		rest = rest[:end]
	}
	at := strings.LastIndexByte(rest, '@')
	if at < 0 || rest[0] == '/' || !web && !strings.Contains(rest[:at], ":") { // a user alone is a token on the web only
		return "", false
	}
	return rest[:at], true
}

// queryOf is the query of a URL; of a socket's, that behind its path on the server.
func queryOf(raw string) string {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		rest = raw
	}
	if scheme == "unix" {
		_, rest, _ = strings.Cut(rest, "#")
	}
	rest, _, _ = strings.Cut(rest, "#")
	_, query, _ := strings.Cut(rest, "?")
	return query
}

// notSecret are ends of names that say something about a secret.
var notSecret = []string{"file", "path", "dir", "url", "uri", "endpoint", "type", "ttl", "timeout", "expiry", "tokens", "tokenizer", "limit"}

// isSecretName tells whether what has this name is likely to be a secret.
func isSecretName(name string) bool {
	words := strings.FieldsFunc(strings.ToLower(name), func(c rune) bool { return c == '_' || c == '-' || c == '.' })
	name = strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name))
	if slices.ContainsFunc(notSecret, func(end string) bool { return strings.HasSuffix(name, end) }) {
		return false
	}
	for _, part := range []string{"token", "secret", "passw", "credential", "signature"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	for _, word := range words {
		if slices.Contains([]string{"pass", "pwd", "pin", "pat", "jwt", "bearer", "cookie"}, word) {
			return true
		}
	}
	return strings.HasSuffix(name, "key") || slices.Contains([]string{"auth", "authorization", "proxyauthorization", "cookie", "sig", "code", "pwd", "pin", "pass", "pat"}, name)
}

// urlsIn finds the URLs in a text.
func urlsIn(text string) [][]int { return urlPattern.FindAllStringIndex(text, -1) }

var urlPattern = regexp.MustCompile("[A-Za-z][A-Za-z0-9+.-]*://[^\\s\"'<>`]+")

// hideQueries hides the secrets of every URL in a text, and nothing else of it.
func hideQueries(text string) string {
	if !strings.Contains(text, "://") {
		return text
	}
	return urlPattern.ReplaceAllStringFunc(text, func(raw string) string {
		if user, ok := userOf(raw); ok && user != "" {
			hidden := Hidden
			if name, _, both := strings.Cut(user, ":"); both {
				hidden = name + ":" + Hidden
			}
			raw = strings.Replace(raw, "://"+user+"@", "://"+hidden+"@", 1)
		}
		return hideQuery(raw, func(name, value string) bool { return isSecretName(name) || len(value) >= longSecret })
	})
}

// hideURL hides the password and every value of the query; the rest of the URL
// stays as written.
func hideURL(raw string) string {
	return hideQuery(hideQueries(raw), func(string, string) bool { return true })
}

// hideQuery hides those values of a URL's query that are chosen.
func hideQuery(raw string, chosen func(name, value string) bool) string {
	query := queryOf(raw)
	if query == "" {
		return raw
	}
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		if name, value, _ := strings.Cut(pair, "="); value != "" && chosen(name, value) {
			pairs[i] = name + "=" + Hidden
		}
	}
	return strings.Replace(raw, "?"+query, "?"+strings.Join(pairs, "&"), 1)
}

// hider returns a function that replaces each of the values by "***", in any of
// their forms, and the secrets of every URL. Of these URLs it hides all values
// of the query. Short values are replaced only where they stand alone.
func (f findings) hider(urls []string) func(text string) string {
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
		text = hideQueries(replace(text))
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

// HideIn returns a function that replaces, in parts of these texts of a file,
// what is a secret there: the values of variables and headers of any server,
// those whose name says so, and what lets somebody in by a URL. References
// stay. It looks at every part of the file, also at what is no server of ours,
// and knows nothing of a text that cannot be parsed.
func HideIn(file string, texts ...[]byte) func(part string) string {
	var all []string
	for _, text := range texts {
		if root, err := tree.Parse(file, text); err == nil {
			all = append(all, secretsOf(root, false)...)
		}
	}
	return replacer(all, nil)
}

// secretMaps are the names, in all formats, of maps whose values are secret.
var secretMaps = []string{"env", "environment", "envs", "headers", "http_headers"}

func secretsOf(n *tree.Node, secret bool) []string {
	var all []string
	for _, f := range n.Fields {
		all = append(all, secretsOf(f.Value, secret || slices.Contains(secretMaps, f.Name) || isSecretName(f.Name))...)
	}
	for _, e := range n.List {
		all = append(all, secretsOf(e, secret)...)
	}
	if n.Kind != tree.String && n.Kind != tree.Number || isReference(n.Text) {
		return all
	}
	var found []string
	if secret {
		found = credentials(n.Text)
	}
	for _, v := range slices.Concat(found, urlSecrets(n.Text), secretsInside(n.Text)) {
		all = append(all, asWritten(v)...)
	}
	return all
}

// isReference tells whether a text has its secret elsewhere, in the words of
// any client.
func isReference(text string) bool {
	for _, open := range []string{"${", "{env:", "{file:"} {
		if strings.Contains(text, open) {
			return true
		}
	}
	return strings.HasPrefix(text, "$") && expand.IsVariable(text[1:])
}

// credentials gives a value, and what stands in it behind a word like "Bearer".
func credentials(v string) []string {
	if _, alone, ok := strings.Cut(v, " "); ok {
		return []string{v, alone}
	}
	return []string{v}
}

// asWritten gives the forms that a value may have in a file: plain, line by
// line, and escaped as programs do it.
func asWritten(v string) []string {
	forms := append(strings.Split(v, "\n"), tree.Quoted(v))
	if text, err := json.Marshal(v); err == nil {
		forms = append(forms, string(text))
	}
	var all []string
	for _, form := range forms {
		form = strings.Trim(form, "\" \t\r")
		if len(form) >= shortestSecret && !slices.Contains(all, form) {
			all = append(all, form)
		}
	}
	return all
}
