package observe

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// promtool runs Prometheus's own tool in a folder; scripts/promtool.sh says where
// it is.
func promtool(t *testing.T, dir, stdin string, args ...string) {
	t.Helper()
	path := os.Getenv("PROMTOOL")
	if path == "" {
		t.Skip("without PROMTOOL; scripts/promtool.sh finds it")
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil || args[1] == "metrics" && len(out) > 0 {
		t.Errorf("promtool %q: %v\n%s", args, err, out)
	}
}

func TestPromtool(t *testing.T) {
	t.Run("metrics", func(t *testing.T) { promtool(t, "", ours(scrapeOf(t, scripted(), "")), "check", "metrics") })
	const rules = "../../packaging/prometheus"
	t.Run("rules", func(t *testing.T) {
		promtool(t, rules, "", "check", "rules", "everline.rules.yml")
		promtool(t, rules, "", "test", "rules", "everline.rules.test.yml")
	})
	t.Run("dashboard", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "rules.yml"), dashboardRules(t), 0o600); err != nil {
			t.Fatal(err)
		}
		promtool(t, dir, "", "check", "rules", "rules.yml")
	})
}

// dashboardRules has each query of the dashboard as a recording rule, so that its
// syntax is checked.
func dashboardRules(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile("../../packaging/grafana/everline.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		SchemaVersion int
		Panels        []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Annotations struct{ List []struct{ Expr string } }
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	var exprs []string
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			exprs = append(exprs, target.Expr)
		}
	}
	for _, a := range board.Annotations.List {
		exprs = append(exprs, a.Expr)
	}
	if board.SchemaVersion != 39 || len(exprs) < 20 {
		t.Fatalf("schema %d, %d queries", board.SchemaVersion, len(exprs))
	}
	variables := strings.NewReplacer("$job", ".*", "$instance", ".*", "$server", ".*", "$__rate_interval", "5m")
	var b strings.Builder
	b.WriteString("groups:\n  - name: dashboard\n    rules:\n")
	for i, e := range exprs {
		fmt.Fprintf(&b, "      - record: dashboard:query_%d\n        expr: %q\n", i, variables.Replace(e))
	}
	return []byte(b.String())
}
