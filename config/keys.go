package config

import (
	"strings"
	"time"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/conf/expand"
	"github.com/everline/everline/internal/conf/tree"
)

// draft is a server while it is read: what the file says, before defaults that
// depend on other keys are decided.
type draft struct {
	Server
	kind     string // the file's "type"
	enabled  bool
	overlap  *bool
	maxDelay *time.Duration
	fileEnv  map[string]string // of the envFile
	at       tree.Pos
}

// settings are the keys of "everline" at the top of a file.
func settings(c *Config) []key {
	return []key{
		{"listen", hostPort(&c.Listen)},
		{"firstListWait", duration(&c.FirstListWait, 0)},
		{"separator", text(&c.Separator)},
		{"maxName", number(&c.MaxName, 16)},
		{"drainTimeout", duration(&c.DrainTimeout, 0)},
		{"maxStarting", number(&c.MaxStarting, 1)},
		{"outage", word(&c.Outage, OutageKeep, OutageHide)},
		{"hideAfter", duration(&c.HideAfter, 0)},
		{"pins", word(&c.Pins, PinsOff, PinsWarn, PinsEnforce)},
		{"pinsFile", path(&c.PinsFile)},
		{"expose", word(&c.Expose, ExposeAll, ExposeFind)},
		{"groups", groups(&c.Groups)},
	}
}

// standard are the keys that every client knows.
func standard(d *draft) []key {
	return []key{
		{"type", text(&d.kind)},
		{"command", d.interpolatedPath(&d.Command)},
		{"args", d.interpolatedList(&d.Args)},
		{"env", d.interpolatedMap(&d.Env)},
		{"envFile", d.envFile},
		{"cwd", d.interpolatedPath(&d.Cwd)},
		{"url", d.interpolatedURL(&d.URL)},
		{"headers", d.headers},
		{"disabled", boolean(&d.Disabled)},
		{"enabled", boolean(&d.enabled)},
	}
}

// ours are the keys of "everline" in a server.
func ours(d *draft) []key {
	const instant = time.Millisecond
	return []key{
		{"disabled", boolean(&d.Disabled)},
		{"lazy", boolean(&d.Lazy)},
		{"required", boolean(&d.Required)},
		{"overlap", func(r *reader, n *tree.Node) *fault.Fault {
			d.overlap = new(bool)
			return boolean(d.overlap)(r, n)
		}},
		{"startupTimeout", duration(&d.StartupTimeout, instant)},
		{"callTimeout", duration(&d.CallTimeout, instant)},
		{"parkFor", duration(&d.ParkFor, 0)},
		{"drainTimeout", duration(&d.DrainTimeout, 0)},
		{"idleTimeout", duration(&d.IdleTimeout, 0)},
		{"refreshInterval", duration(&d.RefreshInterval, 0)},
		{"keepResults", duration(&d.KeepResults, 0)},
		{"pingAfter", duration(&d.PingAfter, instant)},
		{"pingMisses", number(&d.PingMisses, 1)},
		{"streamIdleTimeout", duration(&d.StreamIdle, 0)},
		{"messageUrl", d.interpolatedURL(&d.MessageURL)},
		{"stopGrace", duration(&d.StopGrace, 0)},
		{"maxConcurrent", number(&d.MaxConcurrent, 0)},
		{"maxWaiting", number(&d.MaxWaiting, 0)},
		{"maxMessage", size(&d.MaxMessage, 1024)},
		{"isolation", word(&d.Isolation, IsolationShared, IsolationSession)},
		{"maxSessions", number(&d.MaxSessions, 1)},
		{"sessionIdleTimeout", duration(&d.SessionIdle, 0)},
		{"limits", func(r *reader, n *tree.Node) *fault.Fault { return r.object(n, `"limits"`, limits(&d.Limits), nil) }},
		{"replay", replay(&d.Replay)},
		{"retry", func(r *reader, n *tree.Node) *fault.Fault { return r.object(n, `"retry"`, retry(d), nil) }},
		{"tools", func(r *reader, n *tree.Node) *fault.Fault { return r.object(n, `"tools"`, tools(&d.Tools), nil) }},
	}
}

func retry(d *draft) []key {
	to := &d.Retry
	const instant = time.Millisecond
	return []key{
		{"restart", word(&to.Restart, "always", "on-failure", "never")},
		{"fastFor", duration(&to.FastFor, instant)},
		{"firstDelay", duration(&to.FirstDelay, instant)},
		{"maxDelay", func(r *reader, n *tree.Node) *fault.Fault {
			d.maxDelay = new(time.Duration)
			return duration(d.maxDelay, instant)(r, n)
		}},
		{"slowProbe", duration(&to.SlowProbe, instant)},
		{"wakeEvery", duration(&to.WakeEvery, instant)},
		{"watchFor", duration(&to.WatchFor, 0)},
		{"stableAfter", duration(&to.StableAfter, instant)},
		{"strikes", number(&to.Strikes, 1)},
		{"maxStartsPerMinute", number(&to.MaxStarts, 1)},
	}
}

func tools(to *Tools) []key {
	return []key{
		{"allow", texts(&to.Allow)},
		{"deny", texts(&to.Deny)},
		{"hide", texts(&to.Hide)},
		{"rename", textMap(&to.Rename)},
		{"replay", replayMap(&to.Replay)},
	}
}

// expand replaces the references in a scalar. Numbers and booleans are taken
// as their text: people write PORT: 3000 in env. put, which may be nil, gets
// every value of a reference and gives what is to stand in the text.
func (d *draft) expand(r *reader, n *tree.Node, put func(string) string) (string, *fault.Fault) {
	if n.Kind != tree.String && n.Kind != tree.Number && n.Kind != tree.Bool {
		return "", r.wrongKind(n, "a string")
	}
	v, err := r.expand(n, put)
	if err != nil {
		remedy := "set what is missing, or give a default with ${VAR:-default}"
		if r.client != nil {
			remedy = "set it where everline gets its environment from"
		}
		return "", tree.Invalid(r.file, n.Pos, remedy, "%v", err)
	}
	if strings.ContainsRune(v, 0) {
		return "", tree.Invalid(r.file, n.Pos, "remove the NUL character", "the value has a NUL character")
	}
	return strings.TrimPrefix(v, expand.ByteOrderMark), nil
}

// expand replaces the references in a scalar by the rules of the file's format.
func (r *reader) expand(n *tree.Node, put func(string) string) (string, error) {
	switch {
	case n.Literal, r.References == AsWritten:
		return n.Text, nil
	case r.client != nil:
		return r.client.Expand(n, put)
	default:
		refs := expand.References{Env: r.env, Read: r.readFile, Value: put}
		return refs.Expand(n.Text)
	}
}

// secret takes note of a value that a reference gave.
func (d *draft) secret(v string) string {
	d.secrets = append(d.secrets, v)
	return v
}

func (d *draft) interpolated(to *string) setter {
	return d.interpolatedAs(to, d.secret, func(_ *reader, v string) (string, error) { return v, nil })
}

// interpolatedPath also expands "~".
func (d *draft) interpolatedPath(to *string) setter {
	return d.interpolatedAs(to, d.secret, (*reader).atHome)
}

// interpolatedURL also encodes what stands in a place where it would mean
// something else than itself.
func (d *draft) interpolatedURL(to *string) setter {
	return func(r *reader, n *tree.Node) *fault.Fault {
		if r.References != Resolved {
			return d.interpolated(to)(r, n)
		}
		put := func(v string) string { return expand.AsData(d.secret(v)) }
		return d.interpolatedAs(to, put, func(_ *reader, v string) (string, error) { return expand.URL(v), nil })(r, n)
	}
}

func (d *draft) interpolatedAs(to *string, put func(string) string, finish func(*reader, string) (string, error)) setter {
	return func(r *reader, n *tree.Node) *fault.Fault {
		if n.Kind != tree.String {
			return r.wrongKind(n, "a string")
		}
		*to = n.Text // what is shown where a reference fails
		v, f := d.expand(r, n, put)
		if f != nil {
			return f
		}
		v, err := finish(r, v)
		if err != nil {
			return tree.Invalid(r.file, n.Pos, "write the whole path", "%v", err)
		}
		*to = v
		return nil
	}
}

func (d *draft) interpolatedList(to *[]string) setter {
	return func(r *reader, n *tree.Node) *fault.Fault {
		if n.Kind != tree.List {
			return r.wrongKind(n, "a list of strings")
		}
		list := make([]string, 0, len(n.List))
		for _, e := range n.List {
			v, err := d.expand(r, e, d.secret)
			if err != nil {
				return err
			}
			list = append(list, v)
		}
		*to = list
		return nil
	}
}

// interpolatedMap reads a map all of whose values are secret anyway.
func (d *draft) interpolatedMap(to *map[string]string) setter {
	return func(r *reader, n *tree.Node) *fault.Fault {
		if n.Kind != tree.Object {
			return r.wrongKind(n, "an object of strings")
		}
		m := make(map[string]string, len(n.Fields))
		for _, f := range n.Fields {
			if _, twice := m[f.Name]; twice {
				r.warn(f.Pos, "%q is there twice; the first one counts", f.Name)
				continue
			}
			if f.Value.Kind == tree.Null {
				continue
			}
			v, err := d.expand(r, f.Value, nil)
			if err != nil {
				return err
			}
			m[f.Name] = v
		}
		*to = m
		return nil
	}
}
