package doctor

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/everline/everline"
	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/owned"
	"github.com/everline/everline/internal/program"
)

// files looks at the configuration.
func (e *examination) files() {
	for _, path := range e.Files {
		e.say("config", "", OK, "", "%s can be read", path)
		e.owners(path)
		e.permissions(path)
	}
	e.warnings("")
	if err := everline.CheckPins(e.Config); err != nil && e.Running == nil { // one that runs says so itself
		f := fault.From("read pins", err)
		e.say("pins", "", Fail, f.Remedy, "the lock file cannot be used: %s", f.Reason())
	}
	if len(e.Config.Servers) == 0 {
		e.say("config", "", Warn, "everline import, or everline add", "no server is configured")
	}
}

// warnings reports the warnings of the files, about one server or, for "", in
// all.
func (e *examination) warnings(server string) {
	for _, w := range e.Config.Warnings {
		if server == "" || w.Server == server {
			e.say("config", w.Server, Warn, "everline validate", "%s", w.String())
		}
	}
}

// permissions reports a file with secrets that others may read.
func (e *examination) permissions(path string) {
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS == "windows" || info.Mode().Perm()&0o077 == 0 {
		return
	}
	for _, s := range e.Config.Servers {
		if s.Origin.File == path && len(s.Secrets()) > 0 {
			e.say("permissions", "", Warn, "chmod 600 "+path, "%s has environment or header values in it, and others on this machine can read it", path)
			return
		}
	}
}

// arguments reports secrets that everybody on the machine can see.
func (e *examination) arguments(s config.Server) {
	if exposed := s.ExposedArgs(); len(exposed) > 0 {
		e.say("arguments", s.Name, Warn, `give it in "env", or in a file whose name is the argument, if the server takes that`,
			"a secret is in %s: every user of this machine can read the arguments of a process", strings.Join(exposed, ", "))
	}
}

// port looks at the address of the endpoint where no everline has it.
func (e *examination) port(ctx context.Context) {
	if e.Running != nil {
		if e.Running.Endpoint != "" {
			e.say("port", "", OK, "", "clients reach %s", e.Running.Endpoint)
		}
		return
	}
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", e.Config.Listen)
	if err == nil {
		l.Close()
		e.say("port", "", OK, "", "%s is free", e.Config.Listen)
		return
	}
	text := err.Error()
	if _, port, splitErr := net.SplitHostPort(e.Config.Listen); splitErr == nil && e.PortOwner != nil {
		if n, err := strconv.Atoi(port); err == nil {
			if pid := e.PortOwner(n); pid != 0 {
				text += " (process " + strconv.Itoa(pid) + " has it)"
			}
		}
	}
	e.say("port", "", Fail, "end that program, or set \"listen\" to another port", "%s", text)
}

// fewFiles is less than a gateway with a few dozen clients needs.
const fewFiles = 1024

// system looks at the folder for state and at the limits of the process.
func (e *examination) system() {
	probe := e.StateDir
	for {
		info, err := os.Stat(probe)
		if err == nil {
			if !info.IsDir() {
				e.say("state", "", Fail, "name another folder with --state-dir", "%s is not a folder", probe)
				return
			}
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || filepath.Dir(probe) == probe {
			e.say("state", "", Fail, "name another folder with --state-dir", "%v", err)
			return
		}
		probe = filepath.Dir(probe)
	}
	if err := owned.Folder(e.StateDir); probe == e.StateDir && err != nil {
		f := fault.From("look", err)
		e.say("state", "", Fail, f.Remedy, "%s", f.Reason())
		return
	}
	if n, err := e.tryWrite(probe); err != nil {
		e.say("state", "", Fail, "make room there, and let everline write, or name another folder with --state-dir",
			"%d kB, as much as a catalog needs, cannot be written in %s: %v", n/1000, probe, err)
	} else {
		e.say("state", "", OK, "", "state can be kept in %s", e.StateDir)
	}
	if n, known := fileLimit(); known && n < fewFiles {
		e.say("limits", "", Warn, "ulimit -n 4096", "this shell allows only %d open files to a process", n)
	}
}

// smallCatalog is less than the catalogs of most servers need, in bytes.
const smallCatalog = 256 << 10

// tryWrite writes as much into a folder as the largest catalog needs, and takes
// it away again: an empty file can be made where there is no room for more.
func (e *examination) tryWrite(dir string) (size int64, err error) {
	size = smallCatalog
	kept, _ := filepath.Glob(filepath.Join(e.StateDir, "*.catalog")) // a folder with strange names has none that counts
	for _, name := range kept {
		if info, err := os.Stat(name); err == nil {
			size = max(size, info.Size())
		}
	}
	f, err := e.CreateTemp(dir, ".everline-doctor-*")
	if err != nil {
		return size, err
	}
	defer func() { _ = os.Remove(f.Name()) }() // it is gone, or says nothing
	_, err = f.Write(bytes.Repeat([]byte{'x'}, int(size)))
	return size, errors.Join(err, f.Sync(), f.Close())
}

// command looks for the program of a server as everline will.
func (e *examination) command(s config.Server) bool {
	path, ok := s.Env["PATH"]
	if !ok {
		path, _ = e.Env("PATH")
	}
	if strings.ContainsAny(s.Command, `/\`) {
		file := s.Command
		if !filepath.IsAbs(file) {
			file = filepath.Join(s.Cwd, file)
		}
		if found := runnable(file); found != "" {
			e.say("command", s.Name, OK, "", "%s was found", found)
			return true
		}
		text, remedy := file+" cannot be run", "correct \"command\""
		if p := program.Look(file); p != nil {
			text, remedy = p.Text, p.Remedy
		}
		e.say("command", s.Name, Fail, remedy, "%s", text)
		return false
	}
	for _, dir := range filepath.SplitList(path) {
		if found := runnable(filepath.Join(dir, s.Command)); filepath.IsAbs(dir) && found != "" {
			e.say("command", s.Name, OK, "", "%s is %s", s.Command, found)
			return true
		}
	}
	for _, dir := range versionManagers(e.Home) {
		if found := runnable(filepath.Join(dir, s.Command)); found != "" {
			e.say("command", s.Name, Fail, `write "command": "`+filepath.ToSlash(found)+`"`,
				"%s is not on everline's PATH, but it is at %s; a shell adds that folder, and a service does not", s.Command, found)
			return false
		}
	}
	if program.HasArguments(s.Command) {
		e.say("command", s.Name, Fail, "write only the program into \"command\"", "%q was not found; arguments belong in \"args\"", s.Command)
		return false
	}
	e.say("command", s.Name, Fail, "install "+s.Command+", or write its whole path into \"command\"", "%s was not found; searched PATH=%s", s.Command, path)
	return false
}

// runnable returns the file under which a program can be started, "" if none.
func runnable(path string) string {
	names := []string{path}
	if runtime.GOOS == "windows" {
		names = []string{path, path + ".exe", path + ".cmd", path + ".bat"}
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if err == nil && info.Mode().IsRegular() && (runtime.GOOS == "windows" || info.Mode().Perm()&0o111 != 0) {
			return name
		}
	}
	return ""
}

// versionManagers are folders that login shells put on PATH, and nobody else.
func versionManagers(home string) []string {
	all := []string{"/opt/homebrew/bin", "/usr/local/bin", "/home/linuxbrew/.linuxbrew/bin"}
	for _, dir := range []string{
		".local/bin", ".cargo/bin", ".volta/bin", ".asdf/shims", ".local/share/mise/shims", ".bun/bin", ".deno/bin", "go/bin",
	} {
		all = append(all, filepath.Join(home, filepath.FromSlash(dir)))
	}
	for _, pattern := range []string{
		".nvm/versions/node/*/bin", ".local/share/fnm/node-versions/*/installation/bin", ".fnm/node-versions/*/installation/bin",
		".local/share/mise/installs/*/latest/bin", ".pyenv/versions/*/bin",
	} {
		found, _ := filepath.Glob(filepath.Join(home, filepath.FromSlash(pattern))) // the patterns are well formed
		for i := len(found) - 1; i >= 0; i-- {                                      // the newest version first
			all = append(all, found[i])
		}
	}
	return all
}
