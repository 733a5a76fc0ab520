package config

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/everline/everline/internal/conf/expand"
)

// findings are values that must not be shown. One that is sure is a secret by
// its place, a password in a URL, so that it is hidden however short it is; the
// others are only likely to be one.
type findings map[string]bool

func (f findings) add(v string, sure bool) {
	if v != "" {
		f[v] = f[v] || sure && !slices.Contains(plainWords, strings.ToLower(v))
	}
}

// plainWords are values of settings, whatever these are called.
var plainWords = []string{"true", "false", "none", "null", "auto", "yes", "off", "default"}

// named takes a value that has a name.
func (f findings) named(name, v string) {
	sure := isSecretName(name)
	f.add(v, sure)
	f.inside(v)
	if _, alone, ok := strings.Cut(v, " "); ok && sure {
		f.add(strings.TrimSpace(alone), true) // "Bearer …"
	}
}

// inside takes the secrets in a text that has others around them.
func (f findings) inside(text string) {
	for _, v := range urlSecrets(text) {
		f.add(v, true)
	}
	for _, at := range urlsIn(text) {
		for _, v := range urlSecrets(text[at[0]:at[1]]) {
			f.add(v, true)
		}
	}
	for _, m := range assignment.FindAllStringSubmatch(text, -1) {
		if isSecretName(m[1]) {
			f.add(strings.Trim(m[2], `"'`), true)
		}
	}
	if m := atHost.FindStringSubmatch(text); m != nil {
		f.add(m[1], true)
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
func (f findings) basic(encoded string) {
	plain, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return
	}
	f.add(encoded, true)
	f.add(string(plain), true)
	if _, password, ok := strings.Cut(string(plain), ":"); ok {
		f.add(password, true)
	}
}

// json takes the secrets of a text that is JSON, as some servers take their headers.
func (f findings) json(text string) {
	text = strings.TrimSpace(text)
	var v any
	if text == "" || text[0] != '{' && text[0] != '[' || json.Unmarshal([]byte(text), &v) != nil {
		return
	}
	var walk func(name string, v any)
	walk = func(name string, v any) {
		switch v := v.(type) {
		case string:
			f.named(name, v)
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

// args takes the secrets of a command's arguments.
func (f findings) args(args []string) {
	for i, arg := range args {
		if v, ok := secretArg(args, i); ok {
			f.add(v, true)
			f.named("token", v)
		}
		f.inside(arg)
	}
}

// secretArg gives the value of an argument that its name says to be a secret:
// --token=VALUE, NAME_KEY=VALUE, "X-Api-Key: VALUE", or the one behind --token.
func secretArg(args []string, i int) (string, bool) {
	flag, value, pair := strings.Cut(args[i], "=")
	if pair && isSecretName(strings.TrimLeft(flag, "-")) && !strings.ContainsAny(flag, " /:?") {
		return value, value != ""
	}
	if m := header.FindStringSubmatch(args[i]); m != nil && isSecretName(m[1]) {
		return m[2], true
	}
	if i == 0 || args[i] == "" || strings.HasPrefix(args[i], "-") {
		return "", false
	}
	before := args[i-1]
	return args[i], strings.HasPrefix(before, "-") && !strings.Contains(before, "=") && isSecretName(strings.TrimLeft(before, "-"))
}

// findings collects all of a server's secrets.
func (s Server) findings() findings {
	f := findings{}
	for name, v := range s.Env {
		f.named(name, v)
	}
	for name, v := range s.Headers {
		f.named(name, v)
		for _, part := range credentials(v) {
			f.add(part, false)
		}
	}
	f.args(s.Args)
	f.inside(s.Command)
	for _, v := range s.secrets {
		f.add(v, false)
	}
	for _, raw := range []string{s.URL, s.MessageURL} {
		for _, v := range urlSecrets(raw) {
			f.add(v, true)
		}
	}
	return f
}

// urls are those by which the server, or something that it uses, is reached.
func (s Server) urls() []string {
	all := []string{s.URL, s.MessageURL}
	for _, text := range slices.Concat(s.Args, slices.Collect(maps.Values(s.Env))) {
		for _, at := range urlsIn(text) {
			all = append(all, text[at[0]:at[1]])
		}
	}
	return all
}

// shortestSure is the length in bytes below which even a password is not looked
// for in foreign text.
const shortestSure = 3

// Secrets returns the values that must not appear in logs or status: all
// environment and header values, what interpolation put elsewhere, passwords
// and tokens in arguments and connection strings, and the credentials in the
// URL and its query; the longest first, so that replacing them in order never
// leaves a part of one. Values that are too short to be told from other text
// are left out.
func (s Server) Secrets() []string {
	f := s.findings()
	all := slices.Collect(maps.Keys(f))
	all = slices.DeleteFunc(all, func(v string) bool { return len(v) < shortestSecret && (!f[v] || len(v) < shortestSure) })
	slices.SortFunc(all, longestFirst)
	return all
}

func longestFirst(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) }

// forms gives the ways in which programs write a value: line by line, escaped,
// and in base64, alone or behind something else.
func forms(v string) []string {
	all := asWritten(v)
	for _, f := range []string{url.QueryEscape(v), url.PathEscape(v), expand.PercentEncoded(v, expand.Unreserved), expand.PercentEncoded(v, expand.InPath), expand.PercentEncoded(v, expand.InQuery)} {
		all = append(all, f, escapes16.ReplaceAllStringFunc(f, strings.ToLower))
	}
	goText := strconv.Quote(v)
	all = append(all, goText[1:len(goText)-1])
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if len(v) >= shortestSecret {
			all = append(all, enc.EncodeToString([]byte(v)))
		}
		for skip := range 3 { // what of the code does not depend on what is around
			code := enc.EncodeToString(append(make([]byte, skip), v...))
			if from, to := (8*skip+5)/6, 8*(skip+len(v))/6; to-from >= 10 {
				all = append(all, code[from:to])
			}
		}
	}
	return slices.DeleteFunc(all, func(f string) bool { return len(f) < shortestSecret })
}

var escapes16 = regexp.MustCompile(`%[0-9A-F]{2}`)

// PlainSecrets names the places of a server's entry that hold a secret itself,
// and no reference to one: "env GITHUB_TOKEN", "headers Authorization".
func (s Server) PlainSecrets() []string {
	var all []string
	for _, m := range []struct {
		key    string
		values map[string]string
	}{{"env", s.Env}, {"headers", s.Headers}} {
		for _, name := range slices.Sorted(maps.Keys(m.values)) {
			if v := m.values[name]; v != "" && !refers(v) && (isSecretName(name) || looksSecret(v) || len(secretsInside(v)) > 0) {
				all = append(all, m.key+" "+name)
			}
		}
	}
	all = append(all, s.argSecrets(func(v string) bool { return !refers(v) })...)
	for _, u := range []struct{ key, raw string }{{"url", s.URL}, {"messageUrl", s.MessageURL}} {
		if slices.ContainsFunc(urlSecrets(u.raw), func(v string) bool { return v != "" && !refers(v) }) {
			all = append(all, u.key)
		}
	}
	return all
}

// plainWarning is what there is to say of secrets in an entry, and the way out.
func (s Server) plainWarning(what string) (Warning, bool) {
	places := s.PlainSecrets()
	if len(places) == 0 {
		return Warning{}, false
	}
	return Warning{Origin: s.Origin, Server: s.Name, Text: fmt.Sprintf(
		"a secret in plain text is in %s, and %s; set a variable where everline runs, and write %q in its place, or \"${file:path}\" with a file that only you can read",
		strings.Join(places, ", "), what, "${"+s.variableFor(places[0])+"}")}, true
}

// variableFor is a name for the variable of a secret: the one that the server
// itself gives it, else one of the server's name.
func (s Server) variableFor(place string) string {
	if name, ok := strings.CutPrefix(place, "env "); ok && expand.IsVariable(name) {
		return name
	}
	name := strings.Map(func(c rune) rune {
		switch {
		case 'a' <= c && c <= 'z':
			return c - 'a' + 'A'
		case 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
			return c
		default:
			return '_'
		}
	}, s.Name)
	if !expand.IsVariable(name) || len(name) > 40 {
		name = "SERVER"
	}
	return name + "_TOKEN"
}

// PlainWarning tells of the secrets that an entry of a file of ours has in
// plain text, by what is written there; ok is false if there are none.
func PlainWarning(file string, data []byte, server string) (w Warning, ok bool) {
	cfg, err := asItStands(file, data)
	if err != nil {
		return Warning{}, false
	}
	s, ok := cfg.Server(server)
	if !ok {
		return Warning{}, false
	}
	return s.plainWarning("whoever reads the file has it")
}

// ExposedArgs names the arguments that hold a secret, wherever it came from:
// every user of the machine can see the arguments of a process.
func (s Server) ExposedArgs() []string {
	return s.argSecrets(func(string) bool { return true })
}

func (s Server) argSecrets(counts func(string) bool) []string {
	var all []string
	for i, arg := range s.Args {
		v, named := secretArg(s.Args, i)
		found := secretsInside(arg)
		if named {
			found = append(found, v)
		}
		if looksSecret(arg) || slices.Contains(s.secrets, arg) && len(arg) >= longSecret && !strings.ContainsAny(arg, `/\ `) {
			found = append(found, arg)
		}
		if slices.ContainsFunc(found, counts) {
			all = append(all, fmt.Sprintf("args[%d]", i))
		}
	}
	return all
}

func secretsInside(text string) []string {
	f := findings{}
	f.inside(text)
	maps.DeleteFunc(f, func(_ string, sure bool) bool { return !sure })
	return slices.Sorted(maps.Keys(f))
}

func refers(v string) bool { return isReference(expand.Kept.Replace(v)) }

// issued are the beginnings by which well-known services mark their tokens.
var issued = []string{
	"sk-", "sk_", "pk_", "rk_", "ghp_", "gho_", "ghu_", "ghs_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "xoxa-", "xapp-", "AKIA", "ASIA", "AIza",
	"eyJ", "hf_", "npm_", "pypi-", "ntn_", "secret_", "lin_api_", "dop_v1_", "shpat_", "SG.", "Bearer ", "Basic ",
}

// looksSecret tells a token by its beginning.
func looksSecret(v string) bool {
	return len(v) >= 16 && slices.ContainsFunc(issued, func(head string) bool { return strings.HasPrefix(v, head) })
}
