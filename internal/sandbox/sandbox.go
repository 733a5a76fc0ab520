// Package sandbox keeps a program to the files and ports that are meant for it, with
// Landlock of the Linux kernel: it starts this same program in its place, which
// confines itself and then becomes the other one. It knows no server, and starts
// nothing itself.
package sandbox

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// What tells a start that is to confine itself from any other start of the program.
const (
	Name = "everline-sandbox" // argv[0]
	Var  = "EVERLINE_SANDBOX" // environment variable, with Tag as its value
	Tag  = "1"
)

// Rules are what a program, and whatever it starts, may do.
type Rules struct {
	Read   []string `json:"read"`   // files and folders that it may read, and start; nil: all
	Write  []string `json:"write"`  // those that it may write as well
	Denied []string `json:"denied"` // those that it may neither read nor write, whatever Read and Write say
	Net    bool     `json:"net"`    // it may connect and listen wherever it wants
	Ports  []uint16 `json:"ports"`  // without Net: TCP ports that it may connect to
}

// A Support is what the system can enforce.
type Support struct {
	ABI   int  // of Landlock; 0: there is none
	Files bool // reading and writing, to the full
	Net   bool // connecting and listening over TCP
}

// String says it in a few words.
func (s Support) String() string {
	switch {
	case s.Net:
		return "files and TCP"
	case s.Files:
		return "files alone: connections need Linux 6.7"
	case s.ABI > 0:
		return "files, but for shortening them: that needs Linux 6.2"
	default:
		return "nothing: it needs Linux with Landlock (5.13 or newer, and \"landlock\" among its lsm=)"
	}
}

// Enforces tells whether all of the rules can be.
func (s Support) Enforces(r Rules) bool { return s.Files && (s.Net || r.Net) }

// Wrap is how a program is started so that it confines itself first: the arguments,
// with the name of the program, and the environment of a start of this program.
func (r Rules) Wrap(path string, args, env []string) (wrapped, wrappedEnv []string) {
	text, _ := json.Marshal(r) // all of it can be encoded
	return slices.Concat([]string{Name, string(text), path}, args), append(env[:len(env):len(env)], Var+"="+Tag)
}

// system is what most programs need beside what is theirs, where Read names that.
var system = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/proc", "/sys", "/dev", "/run/systemd/resolve",
}

// devices may be written to in any case.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/tty"}

// places are what is allowed below the named ones, without the denied ones: as they
// are where nothing in them is denied, else entry by entry. What is not there is
// left out.
func places(named, denied []string) []string {
	var all []string
	for _, place := range named {
		all = append(all, without(resolve(place), denied)...)
	}
	return all
}

func without(place string, denied []string) []string {
	inside := false
	for _, d := range denied {
		switch {
		case within(place, d):
			return nil
		case within(d, place):
			inside = true
		}
	}
	if !inside {
		if _, err := os.Lstat(place); err != nil {
			return nil
		}
		return []string{place}
	}
	entries, _ := os.ReadDir(place) // what cannot be read, the program could not read either
	var all []string
	for _, e := range entries {
		at := filepath.Join(place, e.Name())
		if e.Type()&os.ModeSymlink != 0 {
			continue // a rule is for what a link leads to, and that may be denied
		}
		all = append(all, without(at, denied)...)
	}
	return all
}

// within tells whether a path is another one, or below it.
func within(path, other string) bool {
	return path == other || other == "/" || strings.HasPrefix(path, other+"/")
}

// resolve follows the links in a path, as far as it is there.
func resolve(path string) string {
	path = filepath.Clean(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if parent := filepath.Dir(path); parent != path {
		return filepath.Join(resolve(parent), filepath.Base(path))
	}
	return path
}
