package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/everline/everline/bench/internal/proc"
)

// How a server is reached.
const (
	stdio    = "stdio"
	overHTTP = "http"
	mixed    = "mixed" // the first half of the servers over stdio
)

// A target is something that is measured: a gateway, or the servers directly.
type target struct {
	name    string
	version string
	spawns  bool // it starts a server for each session
	// plan says how to run it in front of the servers of w: the commands, and
	// the URLs. An error that is errSkip says why it cannot be.
	plan func(w *world) (plan, error)
}

type plan struct {
	commands []proc.Command
	urls     []string // one of a gateway that joins its servers; one for each server of others
	direct   bool     // servers over stdio, without anything in front
}

var errSkip = errors.New("does not apply")

// builtin are the targets that need nothing to be installed.
func builtin() []*target {
	return []*target{
		{name: "direct", plan: planDirect},
		{name: "rawproxy", version: "net/http/httputil.ReverseProxy", plan: planRaw},
		{name: "sdkproxy", version: "go-sdk " + moduleVersion("github.com/modelcontextprotocol/go-sdk"), plan: planSDK},
		{name: "everline", plan: planEverline},
		{name: "host", plan: planHost},
	}
}

// findTargets returns what -targets names, or all but host, which is everline
// inside this program, for profiles and soaks.
func (d *driver) findTargets() ([]*target, error) {
	all := builtin()
	peers, err := d.readPeers()
	if err != nil {
		return nil, err
	}
	all = append(all, peers...)
	if d.targets == "" {
		return slices.DeleteFunc(all, func(t *target) bool { return t.name == "host" }), nil
	}
	var wanted []*target
	for name := range strings.SplitSeq(d.targets, ",") {
		i := slices.IndexFunc(all, func(t *target) bool { return t.name == name })
		if i < 0 {
			return nil, fmt.Errorf("-targets: there is no %q", name)
		}
		wanted = append(wanted, all[i])
	}
	return wanted, nil
}

func moduleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == path {
			return m.Version
		}
	}
	return ""
}

func planDirect(w *world) (plan, error) {
	if w.kind == stdio {
		return plan{direct: true}, nil
	}
	var p plan
	for _, s := range w.servers {
		p.urls = append(p.urls, s.url)
	}
	return p, nil
}

func planRaw(w *world) (plan, error) {
	if w.kind == stdio || len(w.servers) != 1 {
		return plan{}, fmt.Errorf("%w: it passes HTTP on to one server", errSkip)
	}
	to := w.servers[0].url
	return one(w, w.d.exe, "rawproxy", "-listen", w.address(), "-to", strings.TrimSuffix(to, "/mcp")), nil
}

func planSDK(w *world) (plan, error) {
	return one(w, w.d.exe, "sdkproxy", "-listen", w.address(), "-config", w.config(nil)), nil
}

func planEverline(w *world) (plan, error) {
	p := one(w, w.d.everline, "serve", "--config", w.config(nil), "--listen", w.address(), "--state-dir", filepath.Join(w.dir, "state"), "--log-level", "warn")
	p.commands[0].Env = []string{"GODEBUG=" + w.godebug}
	return p, nil
}

func planHost(w *world) (plan, error) {
	argv := []string{w.d.exe, "host", "-config", w.config(nil), "-listen", w.address(), "-debug", w.debugAddress(), "-state", filepath.Join(w.dir, "state")}
	if w.d.profile != "" {
		argv = append(argv, "-block", "10000", "-mutex", "10")
	}
	return one(w, argv...), nil
}

// one is a gateway of one process with the usual URL.
func one(w *world, argv ...string) plan {
	return plan{commands: []proc.Command{{Argv: argv}}, urls: []string{"http://" + w.address() + "/mcp"}}
}

// A peer describes another gateway. In Argv and URL these are replaced:
// {port} a free port; {config} a file with {"mcpServers":{...}}; {command} the
// command line of the server as one word, and {argv} as several; {url} that of
// the server over HTTP; {dir} a folder of its own.
type peer struct {
	Name    string   `json:"name"`
	Version string   `json:"version"`
	Kinds   []string `json:"kinds"` // how it can reach servers: stdio, http
	Argv    []string `json:"argv"`
	URL     string   `json:"url"`
	Spawns  bool     `json:"spawns"` // it starts a server for each session
}

// defaultPeers is where scripts/peers.sh puts its list.
func defaultPeers() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "everline-bench", "peers", "peers.json")
}

// readPeers reads the peers file, which may be missing, and -peer.
func (d *driver) readPeers() ([]*target, error) {
	var peers []peer
	text, err := os.ReadFile(d.peers)
	switch {
	case err == nil:
		if err := json.Unmarshal(text, &peers); err != nil {
			return nil, fmt.Errorf("%s: %w", d.peers, err)
		}
	case !errors.Is(err, os.ErrNotExist):
		return nil, err
	}
	for _, line := range d.peer {
		f := strings.Fields(line)
		if len(f) < 3 {
			return nil, fmt.Errorf("-peer %q is not NAME URL COMMAND", line)
		}
		peers = append(peers, peer{Name: f[0], URL: f[1], Argv: f[2:]})
	}
	var all []*target
	for _, p := range peers {
		all = append(all, &target{name: p.Name, version: p.Version, spawns: p.Spawns, plan: p.plan})
	}
	return all, nil
}

// joins tells whether one process serves all servers.
func (p peer) joins() bool {
	return slices.ContainsFunc(p.Argv, func(a string) bool { return strings.Contains(a, "{config}") })
}

func (p peer) plan(w *world) (plan, error) {
	if len(p.Kinds) > 0 && !slices.Contains(p.Kinds, w.kind) {
		return plan{}, fmt.Errorf("%w: it reaches no servers over %s", errSkip, w.kind)
	}
	servers := w.servers
	if p.joins() {
		servers = servers[:1]
	}
	var out plan
	for i, s := range servers {
		port := w.port
		if i > 0 {
			var err error
			if port, err = proc.FreePort(); err != nil {
				return plan{}, err
			}
		}
		fill := strings.NewReplacer("{port}", fmt.Sprint(port), "{config}", w.config(nil), "{url}", s.url, "{dir}", w.dir, "{command}", strings.Join(s.argv, " "))
		var argv []string
		for _, a := range p.Argv {
			if a == "{argv}" {
				argv = append(argv, s.argv...)
				continue
			}
			argv = append(argv, fill.Replace(a))
		}
		out.commands = append(out.commands, proc.Command{Argv: argv})
		out.urls = append(out.urls, fill.Replace(p.URL))
	}
	return out, nil
}
