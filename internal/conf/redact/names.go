package redact

import (
	"slices"
	"strings"
)

// Value is a value of a variable or a header for people: "***" where its
// name says that it is a secret and the secret itself stands there, and without
// what lets somebody in where it is a URL.
func Value(name, value string) string {
	switch {
	case IsSecretName(name) && value != "" && (!IsReference(value) || strings.Contains(value, ":-")):
		return Hidden
	case IsReference(value):
		return value
	default:
		return URL(value)
	}
}

// issued are the beginnings by which well-known services mark their tokens.
var issued = []string{
	"sk-", "sk_", "pk_", "rk_", "ghp_", "gho_", "ghu_", "ghs_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "xoxa-", "xapp-", "AKIA", "ASIA", "AIza",
	"eyJ", "hf_", "npm_", "pypi-", "ntn_", "secret_", "lin_api_", "dop_v1_", "shpat_", "SG.", "Bearer ", "Basic ",
}

// LooksSecret tells a token by its beginning.
func LooksSecret(v string) bool {
	return len(v) >= 16 && slices.ContainsFunc(issued, func(head string) bool { return strings.HasPrefix(v, head) })
}

// notSecret are ends of names that say something about a secret.
var notSecret = []string{"file", "path", "dir", "url", "uri", "endpoint", "type", "ttl", "timeout", "expiry", "tokens", "tokenizer", "limit"}

// IsSecretName tells whether what has this name is likely to be a secret.
func IsSecretName(name string) bool {
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
