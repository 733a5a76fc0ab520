package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/everline/everline/internal/fileedit"
)

// isBuiltToRun reports whether a program was built by go run, for this run alone.
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

// selfPath is how this program was started, so that a child is the same
// program under the same name.
func selfPath() (string, error) {
	if p, err := exec.LookPath(os.Args[0]); err == nil {
		return filepath.Abs(p)
	}
	return os.Executable()
}
