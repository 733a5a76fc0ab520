package config

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/conf/expand"
	"github.com/everline/everline/internal/conf/tree"
	"github.com/everline/everline/internal/typed"
)

// serverMap reads a map of servers. A server that a file before it has is left
// out: with several files the first is the one that a person put in front.
func (r *reader) serverMap(n *tree.Node) *fault.Fault {
	if n.Kind == tree.Null {
		return nil
	}
	if n.Kind != tree.Object {
		return r.wrongKind(n, "an object of servers")
	}
	for _, f := range n.Fields {
		if tree.IsComment(f.Name) && !isEntry(f.Value) {
			continue
		}
		if first, known := r.servers[f.Name]; known {
			r.warn(f.Pos, "the server %q is in %s already; that one counts", f.Name, first)
			continue
		}
		r.servers[f.Name] = Origin{r.file, f.Pos.Line}
		r.cfg.Servers = append(r.cfg.Servers, r.readServer(f))
	}
	return nil
}

// isEntry tells whether a value says how a server is reached. The key of such a
// value is a server's name even where it looks like a comment.
func isEntry(n *tree.Node) bool {
	return n.Kind == tree.Object && slices.ContainsFunc([]string{"command", "cmd", "url", "serverUrl", "httpUrl", "uri"}, func(key string) bool {
		return n.Get(key) != nil
	})
}

// maxServerName bounds names in bytes: they are part of every event and log line.
const maxServerName = 4096

// nameProblem is why nobody could address a server of this name; "" for every
// other one: what is published is made of the name, and safe whatever it is.
func nameProblem(name string) string {
	switch {
	case strings.TrimSpace(name) == "":
		return "a server without a name"
	case len(name) > maxServerName:
		return fmt.Sprintf("the server name is longer than %d bytes", maxServerName)
	default:
		return ""
	}
}

// readServer reads one server. What is wrong with it is in its Err.
func (r *reader) readServer(f tree.Field) Server {
	r.server = f.Name
	defer func() { r.server = "" }()
	d := &draft{Server: NewServer(f.Name), enabled: true, at: f.Pos}
	d.Origin = Origin{r.file, f.Pos.Line}
	err := r.members(d, f.Value)
	if !d.enabled {
		d.Disabled = true
	}
	if problem := r.decide(d); err == nil {
		err = problem
	}
	if err != nil {
		err.Server = f.Name
		d.Err = err
	}
	return d.Server
}

// members reads what a server has, in our own format or in a client's. A problem
// of the translation counts before one of the reading, which follows from it.
func (r *reader) members(d *draft, n *tree.Node) *fault.Fault {
	if r.client == nil {
		return r.standardMembers(d, n)
	}
	ours, problem := r.client.Translate(n)
	if ours == nil {
		return problem
	}
	if err := r.standardMembers(d, ours); problem == nil {
		problem = err
	}
	return problem
}

// standardMembers reads a server in our own format. Keys that stand on the wrong
// side of "everline" are named with their place: people move them back and forth.
func (r *reader) standardMembers(d *draft, n *tree.Node) *fault.Fault {
	own := ours(d)
	var inner *fault.Fault
	keys := append(standard(d), key{"everline", func(r *reader, n *tree.Node) *fault.Fault {
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
var transports = map[string]Transport{
	"stdio": TransportStdio, "local": TransportStdio,
	"http": TransportHTTP, "streamable-http": TransportHTTP, "streamable_http": TransportHTTP, "streamableHttp": TransportHTTP,
	"sse": TransportSSE,
	"":    "",
}

// decide settles the transport and checks what belongs to it.
func (r *reader) decide(d *draft) *fault.Fault {
	fail := func(remedy, format string, args ...any) *fault.Fault {
		return tree.Invalid(r.file, d.at, remedy, format, args...)
	}
	d.addFileEnv()
	kind, known := transports[d.kind]
	d.Transport = kind
	if kind == "" {
		d.Transport = TransportStdio
		if d.URL != "" {
			d.Transport = TransportAuto
		}
	}
	d.setDefaults()
	if d.overlap != nil {
		d.Overlap = *d.overlap
	}
	if d.maxDelay != nil {
		d.Retry.MaxDelay = *d.maxDelay
	}
	switch {
	case nameProblem(d.Name) != "":
		return fail("give it a name by which it can be addressed", "%s", nameProblem(d.Name))
	case !known:
		return fail("write stdio, http or sse, or leave it out", "unknown type %q%s", d.kind, typed.Meant(d.kind, []string{"stdio", "http", "sse"}))
	case d.Command != "" && d.URL != "":
		return fail("keep one of them", `both "command" and "url"`)
	case d.Retry.MaxDelay < d.Retry.FirstDelay:
		return fail(`raise "maxDelay"`, "maxDelay %s is less than firstDelay %s", d.Retry.MaxDelay, d.Retry.FirstDelay)
	case d.Transport == TransportStdio:
		return r.decideStdio(d, fail)
	default:
		return r.decideURL(d, fail)
	}
}

// decideStdio checks what only a command has. What cannot work makes the server
// misconfigured now, because every start would fail in the same way.
func (r *reader) decideStdio(d *draft, fail func(remedy, format string, args ...any) *fault.Fault) *fault.Fault {
	if d.Auth.isSet() {
		r.warn(d.at, `"auth" means nothing to a command`)
	}
	if d.TLS != (ServerTLS{}) {
		r.warn(d.at, `"tls" means nothing to a command`)
	}
	if d.Command == "" {
		return fail(`give it "command" (a program) or "url"`, `neither "command" nor "url"`)
	}
	if len(d.Headers) > 0 {
		r.warn(d.at, `"headers" mean nothing to a command`)
	}
	if f := r.commandLine(d, fail); f != nil {
		return f
	}
	for _, name := range slices.Sorted(maps.Keys(d.Env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return fail("give the variable a plain name", "the environment variable %q cannot exist", name)
		}
	}
	if i := slices.IndexFunc(d.Args, func(a string) bool { rest, home := ofHome(a); return home && rest != "" }); i >= 0 {
		r.warn(d.at, `the server gets %q of "args" as it stands there, because no shell expands it; write ${HOME} for "~"`, d.Args[i])
	}
	if d.Cwd != "" {
		d.Cwd = seenFrom(r.folder(), d.Cwd)
	}
	return nil
}

// launchers are programs that people write with arguments behind them.
var launchers = []string{
	"npx", "npm", "pnpm", "yarn", "node", "bun", "bunx", "deno", "tsx", "uv", "uvx", "pipx", "python", "python3", "ruby", "java",
	"docker", "podman", "go", "cargo", "dotnet", "php", "sh", "bash", "zsh", "cmd", "powershell", "pwsh", "env", "sudo",
}

// commandLine refuses a command that has its arguments in it beyond doubt, and
// warns of one that may have: names of programs can have spaces.
func (r *reader) commandLine(d *draft, fail func(remedy, format string, args ...any) *fault.Fault) *fault.Fault {
	if strings.HasPrefix(d.Command, "http://") || strings.HasPrefix(d.Command, "https://") {
		return fail(`write "url" in place of "command"`, `"command" is the name of a program, and this is a URL`)
	}
	words := strings.Fields(d.Command)
	if len(words) < 2 || r.References == AsWritten {
		return nil
	}
	options := slices.ContainsFunc(words[1:], func(w string) bool { return strings.HasPrefix(w, "-") })
	bare := !strings.ContainsAny(words[0], `/\`)
	name := strings.TrimSuffix(strings.ToLower(words[0]), ".exe")
	switch {
	case bare && (options || slices.Contains(launchers, name)):
		return fail(`write "command": `+strconv.Quote(words[0])+`, and each word behind it as an item of "args"`,
			`"command" is the name of a program alone, and this one holds its arguments; they belong in "args"`)
	case bare || options:
		r.warn(d.at, `"command" is the name of a program alone; its arguments belong in "args"`)
	}
	return nil
}

// decideURL checks what only a URL has.
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
	if f := r.decideAuth(d, fail); f != nil {
		return f
	}
	if f := r.decideTLS(d, fail); f != nil {
		return f
	}
	u, err := url.Parse(d.URL)
	switch {
	case strings.Contains(d.URL, expand.KeepOpen): // the part that is a reference decides
	case err != nil: // the parser's own text would show the URL, which may hold a password
		return fail("write it like https://example.com/mcp", "the URL cannot be read")
	case u.Scheme == "unix":
		if u.Host != "" || u.Path == "" {
			return fail("write it like unix:///run/server.sock#/mcp", "the URL of a socket must hold its path")
		}
	case u.Scheme != "http" && u.Scheme != "https":
		return fail("write it like https://example.com/mcp", "the URL's scheme is %q, not http, https or unix", u.Scheme)
	case u.Hostname() == "":
		return fail("write it like https://example.com/mcp", "the URL has no host")
	case u.Port() != "" && !isPort(u.Port(), 1):
		return fail("write a port from 1 to 65535", "the URL's port %s does not exist", u.Port())
	}
	return nil
}

// decideTLS refuses what can never work. The files are looked at by each start.
func (r *reader) decideTLS(d *draft, fail func(remedy, format string, args ...any) *fault.Fault) *fault.Fault {
	t := &d.TLS
	for _, file := range []*string{&t.CAFile, &t.CertFile, &t.KeyFile} {
		if *file != "" {
			*file = seenFrom(r.folder(), *file)
		}
	}
	scheme, _, _ := strings.Cut(d.URL, ":")
	switch {
	case *t == ServerTLS{}:
		return nil
	case (t.CertFile == "") != (t.KeyFile == ""):
		return fail(`give "tls" both, "certFile" and "keyFile"`, `"tls" has a certificate without its key, or a key without its certificate`)
	case !strings.EqualFold(scheme, "https") && !strings.Contains(d.URL, expand.KeepOpen):
		return fail(`write https in "url", or leave "tls" out`, `"tls" means nothing to a URL of %s`, cmp.Or(scheme, "no scheme"))
	default:
		return nil
	}
}

// decideAuth refuses what can never work.
func (r *reader) decideAuth(d *draft, fail func(remedy, format string, args ...any) *fault.Fault) *fault.Fault {
	a := &d.Auth
	static := false
	for name := range d.Headers {
		static = static || http.CanonicalHeaderKey(name) == "Authorization"
	}
	for _, file := range []*string{&a.ClientSecretFile, &a.PrivateKeyFile, &a.AssertionFile} {
		if *file != "" {
			*file = seenFrom(r.folder(), *file)
		}
	}
	switch {
	case static && a.Type != AuthAuto && a.Type != AuthNone:
		return fail(`keep one of them`, `both the header "Authorization" and "auth" of the type %s`, a.Type)
	case a.ClientSecret != "" && a.ClientSecretFile != "":
		return fail("keep one of them", `both "clientSecret" and "clientSecretFile"`)
	case a.Type == AuthCommand && a.Command == "":
		return fail(`give "auth" its "command"`, `"auth" of the type command without "command"`)
	case a.Type == AuthClientCredentials && (a.ClientID == "" || a.ClientSecret == "" && a.ClientSecretFile == "" && a.PrivateKeyFile == ""):
		return fail(`give "auth" a "clientId", and a "clientSecret" or "privateKeyFile"`, `"auth" of the type client_credentials without them`)
	case a.Type == AuthWorkload && a.AssertionFile == "" && a.Command == "":
		return fail(`give "auth" an "assertionFile", or a "command" that prints the token`, `"auth" of the type workload without its token`)
	case a.Type == AuthEnterprise && a.IDPIssuer == "" && a.IDPTokenURL == "":
		return fail(`give "auth" the "idpIssuer"`, `"auth" of the type enterprise without an identity provider`)
	case a.CallbackPort > 65535:
		return fail("write a port from 1 to 65535", "the callbackPort %d does not exist", a.CallbackPort)
	default:
		return nil
	}
}
