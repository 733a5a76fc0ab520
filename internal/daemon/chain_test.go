package daemon

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/everline/everline/internal/mcp"
)

// TestChainEndsWithItsProcess has a variable that outlived who set it, one whose
// everline is there, and one of levels that do not see each other.
func TestChainEndsWithItsProcess(t *testing.T) {
	files := []string{filepath.Join(t.TempDir(), "everline.json")}
	t.Setenv(mcp.ChainVar, "")
	if !joinChain(files) {
		t.Fatal("refused without a chain")
	}
	served, server, _ := strings.Cut(os.Getenv(mcp.ChainVar), ":")
	if server != strconv.Itoa(os.Getpid()) {
		t.Fatalf("the chain is %q", os.Getenv(mcp.ChainVar))
	}
	const none = "2147483647" // more than any system gives
	for _, c := range []struct {
		above string
		want  bool
	}{
		{served + ":" + none, true},
		{served + ":" + none + " " + served + ":" + strconv.Itoa(os.Getppid()), false},
		{"other:" + strconv.Itoa(os.Getppid()), true},
		{strings.Repeat(served+":"+none+" ", maxEnded), true},
		{strings.Repeat(served+":"+none+" ", maxEnded+1), false},
	} {
		t.Setenv(mcp.ChainVar, c.above)
		if got := joinChain(files); got != c.want {
			t.Errorf("%q: %v", c.above, got)
		}
	}
}
