package stdio

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/program"
	"github.com/everline/everline/internal/transport"
)

// baseNames are the variables of our own environment that every child gets, if
// they are set. They say who and where the user is, how text and time look,
// and how to get out to the network: npx and uvx download through the proxy
// and check certificates. Nothing else is handed on, so that a server sees
// neither our settings (GOGC, GOMAXPROCS) nor another server's secrets.
var baseNames = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TERM",
	"XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
	mcp.ChainVar, // by which an everline below knows that it is the same again
}

// windowsNames are those that programs on Windows do not start without.
var windowsNames = []string{
	"SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "TEMP", "TMP", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA",
	"PROGRAMFILES", "PROGRAMFILES(X86)", "PROGRAMW6432", "COMMONPROGRAMFILES", "USERPROFILE", "USERNAME", "USERDOMAIN",
	"HOMEDRIVE", "HOMEPATH", "NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE", "OS",
}

// BaseEnv returns the environment of a child, sorted: the base set (PATH, HOME,
// USER, LOGNAME, SHELL, LANG, LANGUAGE, LC_*, TZ, TMPDIR, TERM, XDG_*_HOME,
// XDG_RUNTIME_DIR, the proxy variables, SSL_CERT_FILE, SSL_CERT_DIR,
// NODE_EXTRA_CA_CERTS, EVERLINE_CHAIN; on Windows also the system's own) as far as it is set in
// ours, with extra put over it. An empty value stays an empty value.
func BaseEnv(extra map[string]string) []string { return mergeEnv(os.Environ(), extra) }

func mergeEnv(own []string, extra map[string]string) []string {
	vars := map[string]string{} // by envKey
	for _, kv := range own {
		if name, _, ok := strings.Cut(kv, "="); ok && isBase(name) {
			vars[envKey(name)] = kv
		}
	}
	for name, value := range extra {
		vars[envKey(name)] = name + "=" + value
	}
	env := make([]string, 0, len(vars))
	for _, kv := range vars {
		env = append(env, kv)
	}
	slices.Sort(env)
	return env
}

// envKey is what makes two names the same variable.
func envKey(name string) string {
	if runtime.GOOS == "windows" {
		return strings.ToUpper(name)
	}
	return name
}

func isBase(name string) bool {
	key := envKey(name)
	return slices.Contains(baseNames, key) || strings.HasPrefix(key, "LC_") ||
		runtime.GOOS == "windows" && slices.Contains(windowsNames, key)
}

// envValue returns the last value of a variable, as the system would.
func envValue(env []string, name string) (value string, ok bool) {
	for _, kv := range env {
		if n, v, found := strings.Cut(kv, "="); found && envKey(n) == name {
			value, ok = v, true
		}
	}
	return value, ok
}

// searchPath is the PATH in which a command is looked for.
func searchPath(env []string) string {
	if path, ok := envValue(env, "PATH"); ok {
		return path
	}
	return os.Getenv("PATH")
}

// checkWords refuses what no process can be given.
func checkWords(spec Spec) *fault.Fault {
	for _, words := range [][]string{{spec.Command, spec.Dir}, spec.Args, spec.Env} {
		for _, w := range words {
			if strings.ContainsRune(w, 0) {
				f := transport.NotSent(fault.Invalid, opStart, errors.New("the command, its arguments or its environment have a NUL character"))
				f.Remedy = "take the NUL character out of the server's configuration"
				return f
			}
		}
	}
	return nil
}

// command prepares the process. It is the one place that decides what is
// executed, with which arguments.
func command(spec Spec) (*exec.Cmd, *fault.Fault) {
	if f := checkWords(spec); f != nil {
		return nil, f
	}
	if f := checkDir(spec.Dir); f != nil {
		return nil, f
	}
	path, f := lookCommand(spec)
	if f != nil {
		return nil, f
	}
	return &exec.Cmd{
		Path: path,
		Args: append([]string{spec.Command}, spec.Args...),
		Env:  append([]string{}, spec.Env...), // never nil, which would mean all of ours
		Dir:  spec.Dir,
	}, nil
}

func checkDir(dir string) *fault.Fault {
	if dir == "" {
		return nil
	}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a folder", dir)
	}
	if err == nil {
		return nil
	}
	f := transport.NotSent(fault.Missing, opStart, fmt.Errorf("the folder to start in: %w", err))
	f.Remedy = "create the folder, or correct the server's cwd"
	return f
}

// lookCommand finds the program. A name without a separator is looked for in
// the child's own PATH; a relative path counts from its folder.
func lookCommand(spec Spec) (string, *fault.Fault) {
	if spec.Command == "" {
		return "", transport.NotSent(fault.Invalid, opStart, errors.New("no command is configured"))
	}
	if filepath.Base(spec.Command) != spec.Command {
		return lookPath(spec)
	}
	path := searchPath(spec.Env)
	var denied error
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue // "." in PATH runs what somebody else put there
		}
		found, err := exec.LookPath(filepath.Join(dir, spec.Command))
		if err == nil {
			return found, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			denied = err
		}
	}
	if denied != nil {
		return "", notExecutable(denied)
	}
	f := transport.NotSent(fault.Missing, opStart, fmt.Errorf("command %q was not found; searched PATH=%s", spec.Command, path))
	f.Remedy = "install " + spec.Command + ", configure its absolute path, or add its folder to PATH in the server's env"
	if program.HasArguments(spec.Command) {
		f.Err = fmt.Errorf("command %q was not found; arguments belong in \"args\"", spec.Command)
		f.Remedy = "write only the program into \"command\", and each argument as an item of \"args\""
	}
	return "", f
}

func lookPath(spec Spec) (string, *fault.Fault) {
	path := spec.Command
	if !filepath.IsAbs(path) {
		path = filepath.Join(spec.Dir, path)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", transport.NotSent(fault.Spawn, opStart, err)
	}
	found, err := exec.LookPath(path)
	if err == nil {
		return found, nil
	}
	if p := program.Look(path); p != nil {
		return "", problemFault(p)
	}
	return "", notExecutable(err)
}

func notExecutable(err error) *fault.Fault {
	f := transport.NotSent(fault.Spawn, opStart, err)
	f.Remedy = "make the file executable, or correct the server's command"
	return f
}

// problemFault is the fault of a command that cannot be started.
func problemFault(p *program.Problem) *fault.Fault {
	kind := fault.Spawn
	if p.Missing {
		kind = fault.Missing
	}
	f := transport.NotSent(kind, opStart, errors.New(p.Text))
	f.Remedy = p.Remedy
	return f
}

// startFault classifies why a program that exists did not start.
func startFault(path string, err error) *fault.Fault {
	var refused *fs.PathError
	if !errors.As(err, &refused) || refused.Op != "fork/exec" { // else it is the guard that failed
		return transport.NotSent(fault.Spawn, opStart, err)
	}
	p := program.Refused(path, err)
	if p == nil || p.Text == err.Error() {
		return transport.NotSent(fault.Spawn, opStart, err)
	}
	return problemFault(p)
}

// exitRemedy explains what the exit status of a program alone does not say.
func exitRemedy(exit, path string, env []string) string {
	switch exit {
	case "exit 127":
		if p := program.Script(path); p != nil { // env looked for the name with the carriage return
			return p.Text + "; " + p.Remedy
		}
		return "a program that the command starts was not found in PATH=" + searchPath(env) + "; add its folder to PATH in the server's env"
	case "exit 126":
		return "a program that the command starts is not executable"
	default:
		return ""
	}
}
