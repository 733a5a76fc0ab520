package redact

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// LongSecret is the length in bytes from which a value in the query of a URL
// is taken for a secret, whatever its name.
const LongSecret = 20

// InURL are the values in a URL that let somebody in: its password, or
// what stands alone in that place, and what its query names as a secret or is
// as long as one; as written and decoded.
func InURL(raw string) []string {
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
		if IsSecretName(name) || len(value) >= LongSecret {
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
// in everybody that knows it.
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

// URLsIn finds the URLs in a text.
func URLsIn(text string) [][]int { return urlPattern.FindAllStringIndex(text, -1) }

var urlPattern = regexp.MustCompile("[A-Za-z][A-Za-z0-9+.-]*://[^\\s\"'<>`]+")

// Queries hides the secrets of every URL in a text, and nothing else of it.
func Queries(text string) string {
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
		return hideQuery(raw, func(name, value string) bool { return IsSecretName(name) || len(value) >= LongSecret })
	})
}

// URL hides the password and every value of the query; the rest of the URL
// stays as written.
func URL(raw string) string {
	return hideQuery(Queries(raw), func(string, string) bool { return true })
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
