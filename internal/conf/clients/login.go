package clients

import (
	"slices"
	"strings"

	"github.com/everline/everline/internal/conf/tree"
)

// oauthClient reads what a client's file has of an OAuth client that was registered
// by hand: its words, and ours. "" is a word that changes nothing here. In place of
// the object, false means that nobody logs in.
func oauthClient(words map[string]string) rule {
	return func(t *translation, f tree.Field) {
		switch {
		case f.Value.Kind == tree.Bool && f.Value.Text == "false":
			t.put(t.auth, "type", literal(f.Value.Pos, "none"))
			return
		case f.Value.Kind == tree.Bool:
			return
		case f.Value.Kind != tree.Object:
			t.fail(tree.WrongKind(t.r.Path, f.Value, "an object"))
			return
		}
		for _, m := range f.Value.Fields {
			ours, known := words[m.Name]
			switch {
			case !known && !tree.IsComment(m.Name):
				t.r.unknown(m, `in "`+f.Name+`"`, wordNames(words))
			case ours == "" || m.Value.Kind == tree.Null:
			case ours == unusable:
				t.r.Warn(m.Pos, "%q is not used here: the issuer's own metadata says that; set \"authorizationServerMetadata\" where it is not found", m.Name)
			default:
				credential(ours)(t, m)
			}
		}
	}
}

// unusable is for words that name what everline takes from the issuer alone.
const unusable = "-"

func wordNames(words map[string]string) []string {
	var all []string
	for name := range words {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// credential puts the value under a name among what a server is shown.
func credential(name string) rule {
	return func(t *translation, f tree.Field) {
		v := f.Value
		if name == "scopes" && v.Kind == tree.String { // as OAuth itself writes them
			v = &tree.Node{Kind: tree.List, Pos: v.Pos}
			for _, scope := range strings.Fields(f.Value.Text) {
				v.List = append(v.List, literal(f.Value.Pos, scope))
			}
		}
		t.put(t.auth, name, v)
	}
}

// headersHelper is a line for the shell that prints an object of headers. What it
// has of a credential is Authorization.
func headersHelper(t *translation, f tree.Field) {
	if f.Value.Kind != tree.String {
		t.fail(tree.WrongKind(t.r.Path, f.Value, "a string"))
		return
	}
	t.r.Warn(f.Pos, "of what %q prints only Authorization is used", f.Name)
	t.put(t.auth, "type", literal(f.Value.Pos, "command"))
	t.put(t.auth, "command", literal(f.Value.Pos, "sh"))
	t.put(t.auth, "args", &tree.Node{Kind: tree.List, Pos: f.Value.Pos, List: []*tree.Node{literal(f.Value.Pos, "-c"), f.Value}})
}
