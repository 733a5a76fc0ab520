package systest

import (
	"strings"
	"testing"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/mcptest"
)

// A glob of a policy that grants nothing is warned of once the server has said what it
// has, and no longer when it has a tool of that name.
func TestToolsOfAPolicyThatAreNone(t *testing.T) {
	s := mcptest.New(mcptest.Config{Tools: []string{namedTool("push", "x")}})
	said := make(chan struct{})
	s.On("initialize", func(*mcptest.Request) *mcptest.Reply { <-said; return nil })
	cfg := config.New()
	cfg.Servers = []config.Server{webServer("git", mcptest.Web(t, s).URL)}
	cfg.Policies = []config.Policy{{Name: "p", Tools: []string{"git.push", "git.pull"}}}
	hub, err := everline.Open(t.Context(), cfg, everline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer hub.Close(t.Context())
	if all := hub.Warnings(); len(all) > 0 {
		t.Errorf("before it is known what there is: %v", all)
	}
	close(said)
	if err := hub.Connected(within(t), "git"); err != nil {
		t.Fatal(err)
	}
	if all := hub.Warnings(); len(all) != 1 || !strings.Contains(all[0].Text, `"git.pull"`) {
		t.Errorf("warned of %v", all)
	}
	changed := make(chan struct{}, 16)
	defer hub.OnChange(func([]everline.Kind) { changed <- struct{}{} })()
	s.SetTools(namedTool("push", "x"), namedTool("pull", "x"))
	s.Notify("notifications/tools/list_changed", "")
	<-changed
	if all := hub.Warnings(); len(all) > 0 {
		t.Errorf("afterwards: %v", all)
	}
}
