package clients

import "github.com/everline/everline/internal/conf/tree"

// vscodeSandbox keeps a server with "sandboxEnabled" from writing elsewhere than VS Code
// would let it: to its project or folder, the cache of npm, files that do not last, and
// what "sandbox" of the file adds. Names of hosts and files that are taken out again
// have no counterpart here, so the rest stays open, and is told.
func vscodeSandbox(t *translation, server *tree.Node) {
	on := server.Get("sandboxEnabled")
	if on == nil || on.Kind == tree.Null || t.std.Get("command") == nil {
		return
	}
	if on.Kind != tree.Bool {
		t.fail(tree.WrongKind(t.r.Path, on, "true or false"))
		return
	}
	if on.Text != "true" {
		return
	}
	write := &tree.Node{Kind: tree.List, Pos: on.Pos, List: []*tree.Node{literal(on.Pos, "/tmp"), literal(on.Pos, "~/.npm")}}
	if t.r.ofProject() {
		write.List = append(write.List, literal(on.Pos, "."))
	}
	if cwd := t.std.Get("cwd"); cwd != nil {
		write.List = append(write.List, cwd)
	}
	if more := t.r.sandbox.Descend([]string{"filesystem", "allowWrite"}); more.Kind != tree.Null {
		write.List = append(write.List, t.list(more)...)
	}
	t.put(t.own, "sandbox", &tree.Node{Kind: tree.Object, Pos: on.Pos, Fields: []tree.Field{{Name: "write", Pos: on.Pos, Value: write}}})
	t.r.Warn(on.Pos, `"sandboxEnabled" limits here what the server writes to, and neither its network nor what it reads: see "sandbox" of everline`)
}
