// Package program says in words why the file of a command cannot be started.
// It starts nothing.
package program

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// A Problem is why a command cannot be started, and what helps.
type Problem struct {
	Missing bool // it may come into being later
	Text    string
	Remedy  string
}

// Look says what keeps the file from being started; nil if nothing is seen.
func Look(path string) *Problem {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return missing(path)
	case errors.Is(err, fs.ErrPermission):
		return &Problem{Text: "command " + path + " is in a folder that everline may not search", Remedy: "allow it there (chmod +x on the folder), or correct the server's command"}
	case err != nil:
		if first, rest := firstProgram(path); rest != "" {
			return withArguments(path, first)
		}
		return &Problem{Missing: true, Text: "command " + path + " cannot be looked at: " + reason(err), Remedy: "correct the server's command"}
	case info.IsDir():
		return &Problem{Text: "command " + path + " is a folder", Remedy: "name the program in it"}
	case !info.Mode().IsRegular():
		return &Problem{Text: "command " + path + " is no regular file", Remedy: "correct the server's command"}
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o111 == 0:
		return &Problem{Text: "command " + path + " is not executable", Remedy: "chmod +x " + Quote(path) + ", or name the program that runs it and put the file into \"args\""}
	default:
		return nil
	}
}

func reason(err error) string {
	var on *fs.PathError
	if errors.As(err, &on) {
		return on.Err.Error()
	}
	return err.Error()
}

func missing(path string) *Problem {
	p := &Problem{Missing: true, Text: "command " + path + " does not exist", Remedy: "install it, or correct the server's command"}
	if first, rest := firstProgram(path); rest != "" {
		return withArguments(path, first)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		target, _ := os.Readlink(path) // "" is said as well as nothing
		p.Text, p.Remedy = "command "+path+" is a link to "+target+", which does not exist", "install it anew, or correct the server's command"
	}
	return p
}

func withArguments(path, first string) *Problem {
	p := &Problem{Missing: true, Text: "command " + path + " does not exist; arguments belong in \"args\"", Remedy: "write only the program into \"command\", and each argument as an item of \"args\""}
	if info, err := os.Stat(first); err == nil && info.Mode().IsRegular() {
		p.Remedy = "write \"command\": " + strconv.Quote(first) + ", and each word behind it as an item of \"args\""
	}
	return p
}

// firstProgram splits a command before the first space behind which it may have
// arguments: where what is before it exists, else the first one at all.
func firstProgram(command string) (first, rest string) {
	for i := range len(command) {
		if command[i] != ' ' {
			continue
		}
		if info, err := os.Stat(command[:i]); err == nil && info.Mode().IsRegular() {
			return command[:i], command[i+1:]
		}
	}
	base := filepath.Base(command)
	if at := strings.IndexByte(base, ' '); at >= 0 {
		return strings.TrimSuffix(command, base[at:]), base[at+1:]
	}
	return command, ""
}

// HasArguments tells whether the name of a program, which was not found, looks
// as if it had arguments in it.
func HasArguments(name string) bool { return len(strings.Fields(name)) > 1 }

// Quote writes a word so that a shell takes it as one.
func Quote(word string) string {
	plain := func(c rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+=,", c)
	}
	if word != "" && strings.IndexFunc(word, plain) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// headSize is as much of a file as tells what it is.
const headSize = 512

// Refused says why the system would not start a file that is there.
func Refused(path string, err error) *Problem {
	if p := Look(path); p != nil {
		return p
	}
	head, readErr := headOf(path)
	if readErr != nil {
		return &Problem{Text: err.Error()}
	}
	if p := script(path, head); p != nil {
		return p
	}
	if p := binary(path, head, err); p != nil {
		return p
	}
	switch {
	case bytes.HasPrefix(head, []byte("#!")):
		return interpreter(path, head, err)
	case errors.Is(err, fs.ErrPermission):
		return &Problem{Text: path + " may not be executed here: " + reason(err), Remedy: "see whether its file system is mounted noexec, and who may execute it"}
	default:
		return nil
	}
}

func headOf(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, headSize))
}

// Script says what is wrong with the beginning of a script; nil if nothing is,
// or if it cannot be read.
func Script(path string) *Problem {
	head, err := headOf(path)
	if err != nil {
		return nil
	}
	return script(path, head)
}

func script(path string, head []byte) *Problem {
	line, _, ended := bytes.Cut(head, []byte("\n"))
	switch {
	case len(head) == 0:
		return &Problem{Text: path + " is empty", Remedy: "install it anew"}
	case bytes.HasPrefix(head, []byte("\ufeff#!")):
		return &Problem{Text: path + " has a byte order mark before its #!, so that the system does not see it", Remedy: "save the file as UTF-8 without a byte order mark"}
	case bytes.HasPrefix(head, []byte("#!")) && ended && bytes.HasSuffix(line, []byte("\r")):
		return &Problem{
			Text:   "the first line of " + path + " ends in CR LF, as on Windows: the system looks for an interpreter whose name ends in CR",
			Remedy: "take the carriage returns out: sed -i 's/\\r$//' " + Quote(path),
		}
	default:
		return nil
	}
}

// interpreter says what is wrong with the program that a first line names.
func interpreter(path string, head []byte, err error) *Problem {
	line, _, _ := bytes.Cut(head[2:], []byte("\n"))
	words := strings.Fields(string(line))
	if len(words) == 0 {
		return &Problem{Text: "the first line of " + path + " names no interpreter behind its #!", Remedy: "correct the first line of the script"}
	}
	info, statErr := os.Stat(words[0])
	switch {
	case statErr != nil:
		return &Problem{
			Missing: true, Text: path + " exists, but the interpreter that its first line names, " + words[0] + ", does not",
			Remedy: "install the interpreter, or correct the first line of the script",
		}
	case info.IsDir() || info.Mode().Perm()&0o111 == 0:
		return &Problem{Text: "the interpreter that the first line of " + path + " names, " + words[0] + ", is not executable", Remedy: "correct the first line of the script"}
	default:
		return &Problem{Text: path + " cannot be started by the interpreter that its first line names, " + words[0] + ": " + reason(err), Remedy: "correct the first line of the script"}
	}
}

// binary says what is wrong with a file that is no script.
func binary(path string, head []byte, err error) *Problem {
	foreign := func(system string) *Problem {
		return &Problem{Text: path + " is a program for " + system + ", and this is " + runtime.GOOS, Remedy: "install the one for " + runtime.GOOS + "/" + runtime.GOARCH}
	}
	switch {
	case bytes.HasPrefix(head, []byte("\x7fELF")):
		if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
			return foreign("Linux")
		}
		return elfProblem(path)
	case bytes.HasPrefix(head, []byte("MZ")) && runtime.GOOS != "windows":
		return foreign("Windows")
	case isMachO(head) && runtime.GOOS != "darwin":
		return foreign("macOS")
	case bytes.HasPrefix(head, []byte("#!")) || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist):
		return nil
	case bytes.IndexByte(head, 0) < 0:
		return &Problem{
			Text:   path + " is text without a first line like #!/bin/sh, so that the system does not know what runs it",
			Remedy: "add that line, or name the program that runs it and put the file into \"args\"",
		}
	default:
		return &Problem{Text: path + " is no program of a kind that this system knows", Remedy: "install the one for " + runtime.GOOS + "/" + runtime.GOARCH}
	}
}

func isMachO(head []byte) bool {
	for _, magic := range []string{"\xcf\xfa\xed\xfe", "\xce\xfa\xed\xfe", "\xfe\xed\xfa\xcf", "\xfe\xed\xfa\xce", "\xca\xfe\xba\xbe"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return true
		}
	}
	return false
}

// machines are the names of architectures in ELF.
var machines = map[elf.Machine]string{
	elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64", elf.EM_386: "386", elf.EM_ARM: "arm", elf.EM_RISCV: "riscv64",
	elf.EM_PPC64: "ppc64le", elf.EM_S390: "s390x", elf.EM_LOONGARCH: "loong64", elf.EM_MIPS: "mips",
}

func elfProblem(path string) *Problem {
	f, err := elf.Open(path)
	if err != nil {
		return &Problem{Text: path + " is a damaged program: " + err.Error(), Remedy: "install it anew"}
	}
	defer f.Close() //nolint:errcheck // it was only read
	if of := machines[f.Machine]; of != runtime.GOARCH {
		if of == "" {
			of = f.Machine.String()
		}
		return &Problem{Text: fmt.Sprintf("%s is a program for %s, and this machine is %s", path, of, runtime.GOARCH), Remedy: "install the one for " + runtime.GOOS + "/" + runtime.GOARCH}
	}
	for _, part := range f.Progs {
		if part.Type != elf.PT_INTERP || part.Filesz > headSize {
			continue
		}
		name := make([]byte, part.Filesz)
		if _, err := part.ReadAt(name, 0); err != nil {
			continue
		}
		loader := strings.TrimRight(string(name), "\x00")
		if _, err := os.Stat(loader); err != nil {
			return &Problem{
				Missing: true, Text: path + " was built for another C library: its loader " + loader + " does not exist here",
				Remedy: "install the one for this system (a static or musl build on Alpine), or that loader",
			}
		}
	}
	return nil
}
