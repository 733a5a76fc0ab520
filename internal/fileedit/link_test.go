package fileedit

import "testing"

func TestFaultU5LinkedGroups(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{"http://127.0.0.1:7433/mcp", "", "http://127.0.0.1:7433/mcp"},
		{"http://127.0.0.1:7433/mcp", "notes", "http://127.0.0.1:7433/groups/notes/mcp"},
		{"http://127.0.0.1:7433/mcp/", "notes", "http://127.0.0.1:7433/groups/notes/mcp"},
		{"http://127.0.0.1:7433/mcp/notes", "", "http://127.0.0.1:7433/groups/notes/mcp"},
		{"https://gw.example/prefix/mcp", "notes", "https://gw.example/prefix/groups/notes/mcp"},
		{"https://gw.example/prefix/mcp/", "", "https://gw.example/prefix/mcp/"},
		{"http://127.0.0.1:7433/groups/notes/mcp", "", "http://127.0.0.1:7433/groups/notes/mcp"},
	} {
		if got := GroupURL(c[0], c[1]); got != c[2] {
			t.Errorf("the group %q of %s: %s, want %s", c[1], c[0], got, c[2])
		}
	}
}
