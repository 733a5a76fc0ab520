package main

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/everline/everline/internal/admin"
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

	credentialsKey string // a file; "": everline finds or makes a key
}

var outputs = []string{"table", "wide", "json", "jsonl"}

// streams are the process's own: stdout is data, stderr is talk.
type streams struct {
	stdin          io.Reader
	stdout, stderr io.Writer
}

// runE marks the errors of a command itself, to tell them apart from those of a
// wrong command line.
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
