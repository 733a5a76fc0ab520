package clients

import (
	"math/big"
	"strings"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/conf/tree"
)

// A translation turns one server of a client's file into what our own file
// would say, with every value keeping its place, so that one reader serves all.
type translation struct {
	r     *File
	std   *tree.Node // the standard members
	own   *tree.Node // what goes under "everline"
	tools *tree.Node // what goes under "tools" in there
	auth  *tree.Node // what goes under "auth" in there
	err   *fault.Fault
}

// A rule says what a member becomes.
type rule func(t *translation, f tree.Field)

// Translate returns a server of the file as our own file would have it.
func (r *File) Translate(n *tree.Node) (*tree.Node, *fault.Fault) {
	c := r.client
	if n.Kind != tree.Object {
		return nil, tree.WrongKind(r.Path, n, "an object")
	}
	object := func() *tree.Node { return &tree.Node{Kind: tree.Object, Pos: n.Pos} }
	t := &translation{r: r, std: object(), own: object(), tools: object(), auth: object()}
	seen := map[string]bool{}
	for _, f := range n.Fields {
		use := c.keys[f.Name]
		switch {
		case use == nil:
			if !tree.IsComment(f.Name) {
				r.unknown(f, "in a server of "+c.title, ruleNames(c.keys))
			}
		case seen[f.Name]:
			r.Warn(f.Pos, "duplicate key %q; the first one counts", f.Name)
		case f.Value.Kind == tree.Null:
		default:
			seen[f.Name] = true
			use(t, f)
		}
	}
	if c.finish != nil && t.err == nil {
		c.finish(t, n)
	}
	if t.std.Get("command") != nil && t.std.Get("cwd") == nil && r.ofProject() {
		t.put(t.std, "cwd", literal(n.Pos, "."))
	}
	if len(t.tools.Fields) > 0 {
		t.put(t.own, "tools", t.tools)
	}
	if len(t.auth.Fields) > 0 {
		t.put(t.own, "auth", t.auth)
	}
	if len(t.own.Fields) > 0 {
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

func (t *translation) put(to *tree.Node, name string, v *tree.Node) {
	to.Fields = append(to.Fields, tree.Field{Name: name, Pos: v.Pos, Value: v})
}

// as puts the value under another name among the standard members.
func as(name string) rule {
	return func(t *translation, f tree.Field) { t.put(t.std, name, f.Value) }
}

// address is a URL whose transport is known by the name of its key.
func address(transport string) rule {
	return func(t *translation, f tree.Field) {
		t.put(t.std, "url", f.Value)
		if transport != "" {
			t.put(t.std, "type", literal(f.Pos, transport))
		}
	}
}

// onlyHere is a member that is obeyed here, though not by the client itself.
func onlyHere(name string) rule {
	return func(t *translation, f tree.Field) {
		t.r.Warn(f.Pos, "%s itself does not read %q; everline does", t.r.client.title, f.Name)
		t.put(t.std, name, f.Value)
	}
}

// literal is a text in which nothing is looked for.
func literal(at tree.Pos, text string) *tree.Node {
	return &tree.Node{Kind: tree.String, Pos: at, Text: text, Literal: true}
}

// under puts the value under another name among our own members.
func under(name string) rule {
	return func(t *translation, f tree.Field) { t.put(t.own, name, f.Value) }
}

// toolNames puts a list of names among the tools; a client's names are no
// patterns.
func toolNames(name string) rule {
	return func(t *translation, f tree.Field) {
		list := &tree.Node{Kind: f.Value.Kind, Pos: f.Value.Pos, Text: f.Value.Text}
		for _, e := range f.Value.List {
			plain := *e
			plain.Text = escapeGlob(e.Text)
			list.List = append(list.List, &plain)
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

// scaled is a time of which so many parts are a second, to the microsecond.
func scaled(name string, parts int64) rule {
	return func(t *translation, f tree.Field) {
		if f.Value.Kind != tree.Number {
			t.fail(tree.WrongKind(t.r.Path, f.Value, "a number"))
			return
		}
		v, ok := new(big.Rat).SetString(strings.ReplaceAll(f.Value.Text, "_", ""))
		if !ok || len(f.Value.Text) > 32 {
			t.fail(tree.WrongKind(t.r.Path, f.Value, "a plain number"))
			return
		}
		v.Quo(v, big.NewRat(parts, 1))
		t.put(t.own, name, &tree.Node{Kind: tree.Number, Pos: f.Value.Pos, Text: v.FloatString(6)})
	}
}

// meaningless is a member that is known and changes nothing here.
func meaningless(*translation, tree.Field) {}

// unused is a member that means something to the client which is not done here.
func unused(why string) rule {
	return func(t *translation, f tree.Field) { t.r.Warn(f.Pos, "%q is not used here: %s", f.Name, why) }
}

// transport reads the client's word for how a server is reached.
func transport(words map[string]string) rule {
	return func(t *translation, f tree.Field) {
		if f.Value.Kind != tree.String {
			t.fail(tree.WrongKind(t.r.Path, f.Value, "a string"))
			return
		}
		word, known := words[f.Value.Text]
		if !known {
			word = f.Value.Text // the reader says what is wrong with it
		}
		if word != "" {
			t.put(t.std, "type", literal(f.Value.Pos, word))
		}
	}
}

// fromEnv resolves a member that names a variable.
func (t *translation) fromEnv(at tree.Pos, name string) (string, bool) {
	v, ok := t.r.Env(name)
	if !ok {
		t.fail(tree.Invalid(t.r.Path, at, "set "+name+" in the environment of everline", "the variable %s is not set", name))
	}
	return v, ok
}

// add puts values into a map of the server, such as env, behind what the file
// itself says there.
func (t *translation) add(member string, at tree.Pos, name, value string) {
	m := t.std.Get(member)
	if m == nil {
		m = &tree.Node{Kind: tree.Object, Pos: at}
		t.put(t.std, member, m)
	}
	if m.Kind == tree.Object && m.Get(name) == nil {
		m.Fields = append(m.Fields, tree.Field{Name: name, Pos: at, Value: literal(at, value)})
	}
}

// list gives the strings of a list; what is none is a fault of the server.
func (t *translation) list(n *tree.Node) []*tree.Node {
	if n.Kind != tree.List {
		t.fail(tree.WrongKind(t.r.Path, n, "a list of strings"))
		return nil
	}
	for _, e := range n.List {
		if e.Kind != tree.String {
			t.fail(tree.WrongKind(t.r.Path, e, "a string"))
			return nil
		}
	}
	return n.List
}
