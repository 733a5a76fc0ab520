package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/fileedit"
)

// version is set by release builds.
var version = ""

// buildVersion is what --version prints: the release, else what the build knows.
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

// app is what all commands share: the streams and the persistent flags.
type app struct {
	*streams
	stateDir string
	output   string
}

var outputs = []string{"table", "wide", "json", "jsonl"}

func newRoot(s *streams) *cobra.Command {
	a := &app{streams: s}
	root := &cobra.Command{
		Use:           "everline",
		Short:         "One MCP endpoint for all your MCP servers, kept connected",
		Version:       buildVersion(),
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			for _, o := range outputs {
				if a.output == o {
					return nil
				}
			}
			return fmt.Errorf("unknown output %q; it is one of %s", a.output, strings.Join(outputs, ", "))
		},
	}
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SetFlagErrorFunc(flagError)
	flags := root.PersistentFlags()
	flags.StringVar(&a.stateDir, "state-dir", defaultStateDir(), "folder for catalogs, the lock and the admin socket")
	flags.StringVarP(&a.output, "output", "o", "table", "how to print: "+strings.Join(outputs, ", "))
	root.AddCommand(
		newDemo(a), newDemoServer(s), newServe(a), newStdio(a), newStatus(a), newTop(a), newLogs(a), newEvents(a),
		newOperation(a, "restart", "Replace a server's life by a new one"),
		newOperation(a, "reconnect", "Connect a server anew, whatever it is waiting for"),
		newOperation(a, "enable", "Let a disabled server run again"),
		newOperation(a, "disable", "Stop a server and refuse its calls until it is enabled"),
		newCall(a), newTools(a), newVersion(a),
		newDoctor(a), newDrill(a), newReload(a), newTrust(a), newBugreport(a), newValidate(a), newConfig(a), newAdd(a), newRemove(a), newImport(a), newLink(a), newUnlink(a),
	)
	root.SetHelpCommand(newHelp())
	a.completeNames(root)
	return root
}

// runE marks what a command itself fails with, so that it is told from a wrong
// command line.
func runE(run func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := run(cmd, args); err != nil {
			return ran{err}
		}
		return nil
	}
}

// startPatience is how long a command that needs a running everline waits for
// one that has just been started. Tests shorten it.
var startPatience = time.Second

// client talks to the everline that runs on the state folder, or is starting.
func (a *app) client() *admin.Client { return admin.NewClient(a.stateDir, startPatience) }

// glance is client for commands that do as well without an everline.
func (a *app) glance() *admin.Client { return admin.NewClient(a.stateDir, 0) }

// defaultStateDir follows the XDG rules, and the system's own elsewhere. It is
// "everline-state" in the working folder where there is no home at all.
func defaultStateDir() string {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "everline")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "everline-state"
	}
	switch runtime.GOOS {
	case "windows":
		if dir := os.Getenv("LocalAppData"); dir != "" {
			return filepath.Join(dir, "everline")
		}
		return filepath.Join(home, "AppData", "Local", "everline")
	case "darwin":
		return filepath.Join(home, "Library", "Application Support", "everline")
	default:
		return filepath.Join(home, ".local", "state", "everline")
	}
}

// isBuiltToRun tells whether a program was built by go run, for this run alone.
func isBuiltToRun(program string) bool {
	return strings.Contains(filepath.ToSlash(program), "/go-build") && filepath.Base(filepath.Dir(program)) == "exe"
}

// startedAs is what to type to start this program again, which was started as
// arg0: its name where a shell finds it under that, else what was typed.
func startedAs(arg0 string) string {
	const name = "everline"
	self, err := os.Executable()
	if err != nil {
		return name
	}
	if found, err := exec.LookPath(name); err == nil && fileedit.Same(found, self) {
		return name
	}
	if isBuiltToRun(self) {
		if _, err := os.Stat(filepath.Join("cmd", name)); err == nil {
			return "go run ./cmd/" + name
		}
		return "go run github.com/everline/everline/cmd/" + name + "@latest"
	}
	if filepath.Base(arg0) == arg0 { // not by a path
		return name
	}
	return arg0
}
