package config

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// longSecret is the length in bytes from which a value in the query of a URL
// is taken for a secret, whatever its name.
const longSecret = 20

// urlSecrets are the values in a URL that let somebody in: its password, or
// what stands alone in that place, and what its query names as a secret or is
// as long as one; as written and decoded.
func urlSecrets(raw string) []string {
	u, err := url.Parse(raw)
	if err != nil {
		return nil
	}
	var all []string
	if u.User != nil {
		password, both := u.User.Password()
		if !both {
			password = u.User.Username()
		}
		all = append(all, password)
	}
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if !isSecretName(name) && len(value) < longSecret {
			continue
		}
		all = append(all, value)
		if plain, err := url.QueryUnescape(value); err == nil && plain != value {
			all = append(all, plain)
		}
	}
	return all
}

// isSecretName tells whether what has this name is likely to be a secret.
func isSecretName(name string) bool {
	name = strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name))
	for _, part := range []string{"token", "secret", "passw", "credential", "signature"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return strings.HasSuffix(name, "key") || slices.Contains([]string{"auth", "authorization", "sig", "code", "pwd"}, name)
}

// hideURL works on the text, so that the rest of the URL stays as written: the
// password and every value of the query give way to "***".
func hideURL(raw string) string {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return raw
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	host, tail := rest[:end], rest[end:]
	if at := strings.LastIndex(host, "@"); at >= 0 {
		hidden := Hidden
		if user, _, both := strings.Cut(host[:at], ":"); both {
			hidden = user + ":" + Hidden
		}
		host = hidden + host[at:]
	}
	path, query, found := strings.Cut(tail, "?")
	if !found || strings.Contains(path, "#") {
		return scheme + "://" + host + tail
	}
	query, fragment, hasFragment := strings.Cut(query, "#")
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		if name, value, _ := strings.Cut(pair, "="); value != "" {
			pairs[i] = name + "=" + Hidden
		}
	}
	if hasFragment {
		fragment = "#" + fragment
	}
	return scheme + "://" + host + path + "?" + strings.Join(pairs, "&") + fragment
}

// hider returns a function that replaces each of the values by "***".
func hider(values []string) func(text string) string {
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(values))
	for _, v := range values {
		pairs = append(pairs, v, Hidden)
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
		if root, err := parseTree(file, text); err == nil {
			all = append(all, secretsOf(root, false)...)
		}
	}
	return hider(all)
}

// secretMaps are the names, in all formats, of maps whose values are secret.
var secretMaps = []string{"env", "environment", "envs", "headers", "http_headers"}

func secretsOf(n *node, secret bool) []string {
	var all []string
	for _, f := range n.fields {
		all = append(all, secretsOf(f.value, secret || slices.Contains(secretMaps, f.name) || isSecretName(f.name))...)
	}
	for _, e := range n.list {
		all = append(all, secretsOf(e, secret)...)
	}
	if n.kind != stringNode && n.kind != numberNode || isReference(n.text) {
		return all
	}
	var found []string
	if secret {
		found = credentials(n.text)
	}
	for _, v := range append(found, urlSecrets(n.text)...) {
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
	return strings.HasPrefix(text, "$") && isVariable(text[1:])
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
	forms := append(strings.Split(v, "\n"), quoted(v))
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
