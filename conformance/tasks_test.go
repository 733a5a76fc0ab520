//go:build conformance

package conformance

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/everline/everline/internal/mcptest"
)

// taskScenarios are those of the official suite that are about the tasks
// extension. No revision scores them.
var taskScenarios = []string{
	"tasks-lifecycle", "tasks-capability-negotiation", "tasks-wire-fields", "tasks-request-state-removal", "tasks-mrtr-input",
	"tasks-request-headers", "tasks-dispatch-and-envelope", "tasks-status-notifications", "tasks-required-task-error", "tasks-mrtr-composition",
}

var failedCheck = regexp.MustCompile(`(?m)^.*\bFAILURE\b.*$`)

// TestTaskScenarios runs them against everline in front of a server that has
// tasks: go-sdk, whose fixture the suite is else run against, has none.
func TestTaskScenarios(t *testing.T) {
	up := mcptest.New(mcptest.Config{Era: mcptest.Modern, Tools: mcptest.TaskTools, Capabilities: mcptest.TaskCapabilities(mcptest.Modern)})
	mcptest.ServeTasks(up)
	g := serve(t, map[string]any{"fixtures": map[string]any{"type": "http", "url": mcptest.Web(t, up).URL + "/mcp"}})
	for _, scenario := range taskScenarios {
		t.Run(scenario, func(t *testing.T) {
			cmd := exec.Command(bin(t, "conformance"), "server", "--url", g.url, "--scenario", scenario, "-o", filepath.Join("results", "tasks"))
			cmd.Env = env(t)
			out, err := cmd.CombinedOutput()
			out = escapes.ReplaceAll(out, nil)
			if bad := failedCheck.FindAll(out, -1); err != nil || len(bad) > 0 {
				t.Errorf("%v\n%s\n%s", err, bad, tail(out, 4000))
			}
		})
	}
}
