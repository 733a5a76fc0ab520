package config

import (
	"math/big"
	"strings"

	"github.com/everline/everline/fault"
)

// A translation turns one server of a client's file into what our own file
// would say, with every value keeping its place, so that one reader serves all.
type translation struct {
	r     *reader
	std   *node // the standard members
	own   *node // what goes under "everline"
	tools *node // what goes under "tools" in there
	err   *fault.Fault
}

// A rule says what a member becomes.
type rule func(t *translation, f field)

// translate returns the server as our own file would have it.
func (c *client) translate(r *reader, n *node) (*node, *fault.Fault) {
	if n.kind != objectNode {
		return nil, r.wrongKind(n, "an object")
	}
	object := func() *node { return &node{kind: objectNode, at: n.at} }
	t := &translation{r: r, std: object(), own: object(), tools: object()}
	seen := map[string]bool{}
	for _, f := range n.fields {
		use := c.keys[f.name]
		switch {
		case use == nil:
			if !ignored(f.name) {
				r.unknown(f, "in a server of "+c.title, ruleNames(c.keys), nil)
			}
		case seen[f.name]:
			r.warn(f.at, "%q is there twice; the first one counts", f.name)
		case f.value.kind == nullNode:
		default:
			seen[f.name] = true
			use(t, f)
		}
	}
	if c.finish != nil && t.err == nil {
		c.finish(t, n)
	}
	if t.std.get("command") != nil && t.std.get("cwd") == nil && r.ofProject() {
		t.put(t.std, "cwd", literal(n.at, "."))
	}
	if len(t.tools.fields) > 0 {
		t.put(t.own, "tools", t.tools)
	}
	if len(t.own.fields) > 0 {
		t.put(t.std, "everline", t.own)
	}
	return t.std, t.err
}

func ruleNames(rules map[string]rule) []string {
	all := make([]string, 0, len(rules))
	for name := range rules {
		all = append(all, name)
	}
	return all
}

func (t *translation) fail(err *fault.Fault) {
	if t.err == nil {
		t.err = err
	}
}

func (t *translation) put(to *node, name string, v *node) {
	to.fields = append(to.fields, field{name, v.at, v})
}

// as puts the value under another name among the standard members.
func as(name string) rule {
	return func(t *translation, f field) { t.put(t.std, name, f.value) }
}

// address is a URL whose transport is known by the name of its key.
func address(transport string) rule {
	return func(t *translation, f field) {
		t.put(t.std, "url", f.value)
		if transport != "" {
			t.put(t.std, "type", literal(f.at, transport))
		}
	}
}

// onlyHere is a member that is obeyed here, though not by the client itself.
func onlyHere(name string) rule {
	return func(t *translation, f field) {
		t.r.warn(f.at, "%s itself does not read %q; everline does", t.r.client.title, f.name)
		t.put(t.std, name, f.value)
	}
}

// wherever puts a member where our own file has one of that name.
func wherever(name string) rule {
	return func(t *translation, f field) {
		to := t.std
		if find(ours(&draft{}), name) != nil {
			to = t.own
		}
		t.put(to, name, f.value)
	}
}

// literal is a text in which nothing is looked for.
func literal(at pos, text string) *node {
	return &node{kind: stringNode, at: at, text: text, literal: true}
}

// under puts the value under another name among our own members.
func under(name string) rule {
	return func(t *translation, f field) { t.put(t.own, name, f.value) }
}

// toolNames puts a list of names among the tools; a client's names are no
// patterns.
func toolNames(name string) rule {
	return func(t *translation, f field) {
		list := &node{kind: f.value.kind, at: f.value.at, text: f.value.text}
		for _, e := range f.value.list {
			plain := *e
			plain.text = escapeGlob(e.text)
			list.list = append(list.list, &plain)
		}
		t.put(t.tools, name, list)
	}
}

var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

func escapeGlob(name string) string { return globEscaper.Replace(name) }

// milliseconds is a time that the client counts in thousandths of a second.
func milliseconds(name string) rule { return scaled(name, 1000) }

// seconds is a time that the client counts as we do.
func seconds(name string) rule { return scaled(name, 1) }

func scaled(name string, parts int64) rule {
	return func(t *translation, f field) {
		if f.value.kind != numberNode {
			t.fail(t.r.wrongKind(f.value, "a number"))
			return
		}
		v, ok := new(big.Rat).SetString(strings.ReplaceAll(f.value.text, "_", ""))
		if !ok || len(f.value.text) > 32 {
			t.fail(t.r.wrongKind(f.value, "a plain number"))
			return
		}
		v.Quo(v, big.NewRat(parts, 1))
		t.put(t.own, name, &node{kind: numberNode, at: f.value.at, text: v.FloatString(6)})
	}
}

// meaningless is a member that is known and changes nothing here.
func meaningless(*translation, field) {}

// unused is a member that means something to the client which is not done here.
func unused(why string) rule {
	return func(t *translation, f field) { t.r.warn(f.at, "%q is not used here: %s", f.name, why) }
}

// transport reads the client's word for how a server is reached.
func transport(words map[string]string) rule {
	return func(t *translation, f field) {
		if f.value.kind != stringNode {
			t.fail(t.r.wrongKind(f.value, "a string"))
			return
		}
		word, known := words[f.value.text]
		if !known {
			word = f.value.text // the reader says what is wrong with it
		}
		if word != "" {
			t.put(t.std, "type", literal(f.value.at, word))
		}
	}
}

// fromEnv resolves a member that names a variable.
func (t *translation) fromEnv(at pos, name string) (string, bool) {
	v, ok := t.r.env(name)
	if !ok {
		t.fail(invalid(t.r.file, at, "set "+name+" in the environment of everline", "the variable %s is not set", name))
	}
	return v, ok
}

// add puts values into a map of the server, such as env, behind what the file
// itself says there.
func (t *translation) add(member string, at pos, name, value string) {
	m := t.std.get(member)
	if m == nil {
		m = &node{kind: objectNode, at: at}
		t.put(t.std, member, m)
	}
	if m.kind == objectNode && m.get(name) == nil {
		m.fields = append(m.fields, field{name, at, literal(at, value)})
	}
}

// list gives the strings of a list; what is none is a fault of the server.
func (t *translation) list(n *node) []*node {
	if n.kind != listNode {
		t.fail(t.r.wrongKind(n, "a list of strings"))
		return nil
	}
	for _, e := range n.list {
		if e.kind != stringNode {
			t.fail(t.r.wrongKind(e, "a string"))
			return nil
		}
	}
	return n.list
}
