package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/everline/everline/internal/conf/expand"
	"github.com/everline/everline/internal/conf/redact"
)

// findings collects all of a server's secrets.
func (s Server) findings() redact.Findings {
	f := redact.Findings{}
	for name, v := range s.Env {
		f.Named(name, v)
	}
	for name, v := range s.Headers {
		f.Named(name, v)
		for _, part := range redact.Credentials(v) {
			f.Add(part, false)
		}
	}
	for _, secret := range []string{s.Auth.ClientSecret, s.Auth.IDPClientSecret} {
		if secret != "" {
			f.Named("CLIENT_SECRET", secret)
		}
	}
	f.Args(s.Args)
	f.Args(s.Auth.Args)
	f.Inside(s.Command)
	for _, v := range s.secrets {
		f.Add(v, false)
	}
	for _, raw := range []string{s.URL, s.MessageURL} {
		for _, v := range redact.InURL(raw) {
			f.Add(v, true)
		}
	}
	return f
}

// urls are those by which the server, or something that it uses, is reached.
func (s Server) urls() []string {
	all := []string{s.URL, s.MessageURL}
	for _, text := range slices.Concat(s.Args, slices.Collect(maps.Values(s.Env))) {
		for _, at := range redact.URLsIn(text) {
			all = append(all, text[at[0]:at[1]])
		}
	}
	return all
}

// Secrets returns the values that must not appear in logs or status: all
// environment and header values, what interpolation put elsewhere, passwords
// and tokens in arguments and connection strings, and the credentials in the
// URL and its query; the longest first, so that replacing them in order never
// leaves a part of one. Values that are too short to be told from other text
// are left out.
func (s Server) Secrets() []string { return s.findings().Values() }

// PlainSecrets names the places of a server's entry that hold a secret itself,
// and no reference to one: "env GITHUB_TOKEN", "headers Authorization".
func (s Server) PlainSecrets() []string {
	var all []string
	for _, m := range []struct {
		key    string
		values map[string]string
	}{{"env", s.Env}, {"headers", s.Headers}} {
		for _, name := range slices.Sorted(maps.Keys(m.values)) {
			if v := m.values[name]; v != "" && !redact.IsReference(v) && (redact.IsSecretName(name) || redact.LooksSecret(v) || len(redact.Inside(v)) > 0) {
				all = append(all, m.key+" "+name)
			}
		}
	}
	for _, a := range []struct{ key, value string }{{"clientSecret", s.Auth.ClientSecret}, {"idpClientSecret", s.Auth.IDPClientSecret}} {
		if a.value != "" && !redact.IsReference(a.value) {
			all = append(all, "auth "+a.key)
		}
	}
	all = append(all, s.argSecrets(func(v string) bool { return !redact.IsReference(v) })...)
	for _, u := range []struct{ key, raw string }{{"url", s.URL}, {"messageUrl", s.MessageURL}} {
		if slices.ContainsFunc(redact.InURL(u.raw), func(v string) bool { return v != "" && !redact.IsReference(v) }) {
			all = append(all, u.key)
		}
	}
	return all
}

// PlainWarning is about the secrets that an entry has in plain text, with the
// way out; ok is false if there are none. what says why that is bad. The
// references of the server are as they are written, or kept.
func (s Server) PlainWarning(what string) (w Warning, ok bool) {
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

// ExposedArgs names the arguments that hold a secret, wherever it came from:
// every user of the machine can see the arguments of a process.
func (s Server) ExposedArgs() []string {
	return s.argSecrets(func(string) bool { return true })
}

// argSecrets names the arguments that hold a secret of which counts is true.
func (s Server) argSecrets(counts func(string) bool) []string {
	var all []string
	for i, arg := range s.Args {
		v, named := redact.Arg(s.Args, i)
		found := redact.Inside(arg)
		if named {
			found = append(found, v)
		}
		if redact.LooksSecret(arg) || slices.Contains(s.secrets, arg) && len(arg) >= redact.LongSecret && !strings.ContainsAny(arg, `/\ `) {
			found = append(found, arg)
		}
		if slices.ContainsFunc(found, counts) {
			all = append(all, fmt.Sprintf("args[%d]", i))
		}
	}
	return all
}
