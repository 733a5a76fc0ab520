package config

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/everline/everline/fault"
)

func (r *reader) serverMap(n *node) *fault.Fault {
	if n.kind == nullNode {
		return nil
	}
	if n.kind != objectNode {
		return r.wrongKind(n, "an object of servers")
	}
	for _, f := range n.fields {
		if ignored(f.name) {
			continue
		}
		if err := r.usableName(f); err != nil {
			return err
		}
		if first, twice := r.servers[f.name]; twice {
			r.warn(f.at, "the server %q is in %s already; that one counts", f.name, first)
			continue
		}
		r.servers[f.name] = Origin{r.file, f.at.line}
		r.cfg.Servers = append(r.cfg.Servers, r.readServer(f))
	}
	return nil
}

// usableName refuses names by which nothing could be shown or addressed.
func (r *reader) usableName(f field) *fault.Fault {
	const remedy = "name it with letters, digits, '_', '-', '.' or spaces"
	if strings.TrimSpace(f.name) == "" {
		return invalid(r.file, f.at, remedy, "a server without a name")
	}
	for _, c := range f.name {
		if unicode.IsControl(c) || c == unicode.ReplacementChar {
			return invalid(r.file, f.at, remedy, "the server name %q has a control character", f.name)
		}
	}
	return nil
}

// maxServerName bounds names in bytes: they are part of tool names and of paths.
const maxServerName = 128

func nameProblem(name string) string {
	if len(name) > maxServerName {
		return fmt.Sprintf("the server name is longer than %d bytes", maxServerName)
	}
	for _, c := range name {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("_-. ", c) {
			return fmt.Sprintf("the server name %q has a %q", name, c)
		}
	}
	return ""
}

// readServer reads one server. What is wrong with it is in its Err.
func (r *reader) readServer(f field) Server {
	r.server = f.name
	defer func() { r.server = "" }()
	d := &draft{Server: NewServer(f.name), enabled: true, at: f.at}
	d.Origin = Origin{r.file, f.at.line}
	err := r.members(d, f.value)
	if !d.enabled {
		d.Disabled = true
	}
	if problem := r.decide(d); err == nil {
		err = problem
	}
	if err != nil {
		err.Server = f.name
		d.Err = err
	}
	return d.Server
}

func (r *reader) members(d *draft, n *node) *fault.Fault {
	if r.client == nil {
		return r.standardMembers(d, n)
	}
	ours, problem := r.client.translate(r, n)
	if ours == nil {
		return problem
	}
	if err := r.standardMembers(d, ours); problem == nil {
		problem = err
	}
	return problem
}

func (r *reader) standardMembers(d *draft, n *node) *fault.Fault {
	own := ours(d)
	var inner *fault.Fault
	keys := append(standard(d), key{"everline", func(r *reader, n *node) *fault.Fault {
		inner = r.object(n, `the server's "everline"`, own, misplaced(standard(d), `beside "everline", not in it`))
		return nil
	}})
	err := r.object(n, "a server", keys, misplaced(own, `under "everline"`))
	if err == nil {
		err = inner
	}
	return err
}

func misplaced(keys []key, place string) map[string]string {
	m := make(map[string]string, len(keys))
	for _, k := range keys {
		m[k.name] = place
	}
	return m
}

// transports are the words for "type", with what they mean here.
var transports = map[string]string{
	"stdio": "stdio", "local": "stdio",
	"http": "http", "streamable-http": "http", "streamable_http": "http", "streamableHttp": "http",
	"sse": "sse",
	"":    "",
}

// decide settles the transport and checks what belongs to it.
func (r *reader) decide(d *draft) *fault.Fault {
	fail := func(remedy, format string, args ...any) *fault.Fault {
		return invalid(r.file, d.at, remedy, format, args...)
	}
	d.addFileEnv()
	kind, known := transports[d.kind]
	d.Transport = kind
	if kind == "" {
		d.Transport = "stdio"
		if d.URL != "" {
			d.Transport = "auto"
		}
	}
	d.Overlap = d.Transport != "stdio"
	if d.overlap != nil {
		d.Overlap = *d.overlap
	}
	switch {
	case nameProblem(d.Name) != "":
		return fail("name it with letters, digits, '_', '-', '.' or spaces", "%s", nameProblem(d.Name))
	case !known:
		return fail("write stdio, http or sse, or leave it out", "unknown type %q%s", d.kind, meant(d.kind, []string{"stdio", "http", "sse"}))
	case d.Command != "" && d.URL != "":
		return fail("keep one of them", `both "command" and "url"`)
	case d.Retry.MaxDelay < d.Retry.FirstDelay:
		return fail(`raise "maxDelay"`, "maxDelay %s is less than firstDelay %s", d.Retry.MaxDelay, d.Retry.FirstDelay)
	case d.Transport == "stdio":
		return r.decideStdio(d, fail)
	default:
		return r.decideURL(d, fail)
	}
}

func (r *reader) decideStdio(d *draft, fail func(remedy, format string, args ...any) *fault.Fault) *fault.Fault {
	if d.Command == "" {
		return fail(`give it "command" (a program) or "url"`, `neither "command" nor "url"`)
	}
	if len(d.Headers) > 0 {
		r.warn(d.at, `"headers" mean nothing to a command`)
	}
	if len(d.Args) == 0 && strings.Contains(d.Command, " ") && !strings.ContainsAny(d.Command, `/\`) {
		r.warn(d.at, `"command" is the name of a program alone; its arguments belong in "args"`)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return fail("give the variable a plain name", "the environment variable %q cannot exist", name)
		}
	}
	if d.Cwd != "" {
		d.Cwd = seenFrom(r.folder(), d.Cwd)
	}
	return nil
}

func (r *reader) decideURL(d *draft, fail func(remedy, format string, args ...any) *fault.Fault) *fault.Fault {
	if d.URL == "" {
		return fail(`give it "url"`, `type %q without "url"`, d.kind)
	}
	if len(d.Args) > 0 || len(d.Env) > 0 || d.Cwd != "" {
		r.warn(d.at, `"args", "env" and "cwd" mean nothing to a URL`)
	}
	if d.Limits != (Limits{}) {
		r.warn(d.at, `"limits" mean nothing to a URL`)
	}
	u, err := url.Parse(d.URL)
	switch {
	case strings.Contains(d.URL, keepOpen): // the part that is a reference decides
	case err != nil: // the parser's own text would show the URL, which may hold a password
		return fail("write it like https://example.com/mcp", "the URL cannot be read")
	case u.Scheme == "unix":
		if u.Host != "" || u.Path == "" {
			return fail("write it like unix:///run/server.sock#/mcp", "the URL of a socket must hold its path")
		}
	case u.Scheme != "http" && u.Scheme != "https":
		return fail("write it like https://example.com/mcp", "the URL's scheme is %q, not http, https or unix", u.Scheme)
	case u.Host == "":
		return fail("write it like https://example.com/mcp", "the URL has no host")
	}
	for _, name := range slices.Sorted(maps.Keys(d.Headers)) {
		if !isToken(name) {
			return fail("mend the header's name", "%q cannot be the name of a header", name)
		}
		if strings.ContainsAny(d.Headers[name], "\r\n\x00") {
			return fail("mend the header's value", "the value of the header %s has a line end", strconv.Quote(name))
		}
	}
	return nil
}

// isToken tells whether s is a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !alnum && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}
