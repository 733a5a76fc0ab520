package stdio

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/everline/everline/internal/cgroup"
	"github.com/everline/everline/internal/transport"
)

// Limits that cannot be had are told, and the server runs.
func TestLimitsUnavailable(t *testing.T) {
	eachWay(t, func(t *testing.T, childSpec specMaker) {
		spec := childSpec("serve")
		spec.Limits = cgroup.Limits{Memory: 1 << 30}
		spec.cgroups = func() (*cgroup.Root, error) { return nil, errors.New("nothing is delegated") }
		p := openPeer(t, spec, transport.Options{})
		p.want("echo", `{"text":"x"}`, `"x"`)
		if got := p.Info().Notices; len(got) != 1 || got[0] != "limits are not enforced: nothing is delegated" {
			t.Errorf("%q", got)
		}
	})
}

// The system that runs this test has limits, or says why it has not.
func TestLimitsHere(t *testing.T) {
	spec := childSpec("serve")
	spec.Limits = cgroup.Limits{Pids: 1000}
	p := openPeer(t, spec, transport.Options{})
	p.want("echo", `{"text":"x"}`, `"x"`)
	_, err := cgroup.Find()
	if notices := p.Info().Notices; (err == nil) != (len(notices) == 0) {
		t.Errorf("%v, but %q", err, notices)
	}
}

// Where there is a root the server is born in a group of its own, which is
// removed with it. The root is a folder that looks like one.
func TestLimitsAvailable(t *testing.T) {
	eachWay(t, func(t *testing.T, childSpec specMaker) {
		dir := t.TempDir()
		for name, text := range map[string]string{"cgroup.controllers": "memory pids cpu", "cgroup.procs": ""} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		root, err := cgroup.Open(dir, os.RemoveAll)
		if err != nil {
			t.Fatal(err)
		}
		spec := childSpec("serve")
		spec.Limits = cgroup.Limits{Memory: 1 << 30, Pids: 10}
		spec.cgroups = func() (*cgroup.Root, error) { return root, nil }
		p := openPeer(t, spec, transport.Options{})
		p.want("echo", `{"text":"x"}`, `"x"`)
		if n := p.Info().Notices; len(n) > 0 {
			t.Errorf("%q", n)
		}
		groups, _ := filepath.Glob(filepath.Join(dir, "everline-*"))
		if len(groups) != 1 {
			t.Fatalf("groups: %q", groups)
		}
		entered, err := os.ReadFile(filepath.Join(groups[0], "cgroup.procs"))
		if err != nil || strings.TrimSpace(string(entered)) == "" {
			t.Errorf("nobody is in it: %q, %v", entered, err)
		}
		if err := p.Close(testContext(t)); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(groups[0]); !os.IsNotExist(err) {
			t.Errorf("the group is still there: %v", err)
		}
	})
}
