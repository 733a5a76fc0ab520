package sandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Exit codes, as shells have them.
const (
	exitConfine = 126
	exitStart   = 127
)

// A start that is to confine itself never gets past this.
func init() {
	if len(os.Args) > 3 && os.Args[0] == Name && os.Getenv(Var) == Tag {
		code, err := become(os.Args[1], os.Args[2], os.Args[3:])
		fmt.Fprintf(os.Stderr, "everline: %v\n", err)
		os.Exit(code)
	}
}

// become confines this process and then is the other program. It returns only if
// that cannot be.
func become(text, path string, args []string) (code int, err error) {
	var r Rules
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return exitConfine, fmt.Errorf("bug: the rules of a sandbox cannot be read: %w", err)
	}
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, Var+"=") })
	runtime.LockOSThread() // what is confined is the thread, which then is the program
	if err := confine(r, path); err != nil {
		return exitConfine, fmt.Errorf("the sandbox cannot be made: %w", err)
	}
	return exitStart, fmt.Errorf("%s cannot be started in its sandbox: %w; name what it needs in sandbox.read", path, syscall.Exec(path, args, env))
}

const (
	readFile  landlock.AccessFSSet = ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSIoctlDev | ll.AccessFSResolveUnix
	readDir                        = readFile | ll.AccessFSReadDir
	writeFile                      = readFile | ll.AccessFSWriteFile | ll.AccessFSTruncate
	writeDir                       = readDir | writeFile | ll.AccessFSRemoveDir | ll.AccessFSRemoveFile | ll.AccessFSMakeChar | ll.AccessFSMakeDir |
		ll.AccessFSMakeReg | ll.AccessFSMakeSock | ll.AccessFSMakeFifo | ll.AccessFSMakeBlock | ll.AccessFSMakeSym
)

// confine keeps this thread, and what it becomes and starts, to the rules, as far as
// the kernel can.
func confine(r Rules, program string) error {
	config := landlock.Config{HandledAccessFS: writeDir | ll.AccessFSRefer, Scoped: ll.ScopeSignal | ll.ScopeAbstractUnixSocket}
	rules := fileRules(r, program)
	if !r.Net {
		config.HandledAccessNet = ll.AccessNetBindTCP | ll.AccessNetConnectTCP
		for _, port := range r.Ports {
			rules = append(rules, landlock.ConnectTCP(port))
		}
		if len(r.Ports) == 0 {
			config.HandledAccessNet |= ll.AccessNetBindUDP | ll.AccessNetConnectSendUDP
		}
	}
	fd, flags, err := config.BestEffort().NewRulesetFD(rules...)
	if err != nil || fd < 0 {
		return err // or there is nothing that the kernel can enforce
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return ll.LandlockRestrictSelf(fd, flags)
}

// fileRules are those about files. Who may write to a folder may move things about in
// it, where the kernel can allow that.
func fileRules(r Rules, program string) (rules []landlock.Rule) {
	denied := make([]string, len(r.Denied))
	for i, path := range r.Denied {
		denied[i] = resolve(path)
	}
	read := r.Read
	if read == nil {
		read = []string{"/"}
	} else {
		read = slices.Concat(system, read, []string{program})
	}
	folder, file := readDir, readFile
	for i, named := range [][]string{read, slices.Concat(devices, r.Write)} {
		if i == 1 {
			folder, file = writeDir, writeFile
			if Supported().ABI >= 2 {
				folder |= ll.AccessFSRefer
			}
		}
		for _, place := range places(named, denied) {
			info, err := os.Stat(place)
			switch {
			case err != nil: // it has gone meanwhile
			case info.IsDir():
				rules = append(rules, landlock.PathAccess(folder, place).IgnoreIfMissing())
			default:
				rules = append(rules, landlock.PathAccess(file, place).IgnoreIfMissing())
			}
		}
	}
	return rules
}

// Supported is what this kernel can enforce.
func Supported() Support {
	abi, err := ll.LandlockGetABIVersion()
	if err != nil {
		return Support{}
	}
	return Support{ABI: abi, Files: abi >= 3, Net: abi >= 4}
}
