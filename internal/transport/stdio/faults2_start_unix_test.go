//go:build unix

package stdio

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/transport"
)

// TestFaultS15 starts commands that cannot start, each for a reason of its own,
// and expects the reason in the words of the failure.
func TestFaultS15(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ok := write("ok", "#!/bin/sh\n", 0o700)
	dangling := filepath.Join(dir, "dangling")
	if err := os.Symlink(filepath.Join(dir, "gone"), dangling); err != nil {
		t.Fatal(err)
	}
	elf := "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9) + "\x02\x00\x15\x00\x01\x00\x00\x00" + strings.Repeat("\x00", 28) + "\x40\x00\x38\x00\x00\x00\x40\x00\x00\x00\x00\x00" // of a ppc64
	for name, c := range map[string]struct {
		command string
		kind    fault.Kind
		words   string
		remedy  string
	}{
		"arguments":     {ok + " -y pkg", fault.Missing, `arguments belong in "args"`, ok},
		"bare":          {"everline-none -y pkg", fault.Missing, `arguments belong in "args"`, `"args"`},
		"no such":       {filepath.Join(dir, "none"), fault.Missing, "does not exist", "install"},
		"link":          {dangling, fault.Missing, "is a link to", "install"},
		"folder":        {dir, fault.Spawn, "is a folder", "program in it"},
		"below a file":  {ok + "/x", fault.Missing, "not a directory", "command"},
		"not allowed":   {write("mode", "#!/bin/sh\n", 0o600), fault.Spawn, "not executable", "chmod +x"},
		"no first line": {write("text", "echo hello\n", 0o700), fault.Spawn, "#!/bin/sh", "args"},
		"interpreter":   {write("interp", "#!/nowhere/node\n", 0o700), fault.Missing, "/nowhere/node", "install"},
		"CR LF":         {write("crlf", "#!/bin/sh\r\necho\r\n", 0o700), fault.Spawn, "CR LF", "sed"},
		"BOM":           {write("bom", "\ufeff#!/bin/sh\n", 0o700), fault.Spawn, "byte order mark", "without"},
		"bad interp":    {write("folder", "#!"+dir+"\n", 0o700), fault.Spawn, "not executable", "first line"},
		"Windows":       {write("exe", "MZ\x90\x00", 0o700), fault.Spawn, "is a program for Windows", "install"},
		"other machine": {write("elf", elf, 0o700), fault.Spawn, "is a program for ppc64le", "install"},
		"damaged":       {write("cut", "\x7fELF", 0o700), fault.Spawn, "damaged", "install"},
		"NUL":           {ok + "\x00", fault.Invalid, "NUL", "configuration"},
	} {
		for _, plain := range []bool{false, true} {
			conn, err := Open(testContext(t), Spec{Command: c.command, plain: plain, Env: BaseEnv(nil)}, transport.Options{})
			if err == nil {
				_ = conn.Close(testContext(t))
				t.Errorf("%s: it started", name)
				continue
			}
			f := fault.From("", err)
			if f.Kind != c.kind || !strings.Contains(f.Error(), c.words) || !strings.Contains(f.Remedy, c.remedy) || f.Outcome != fault.NotSent {
				t.Errorf("%s (plain %v): %s: %v\n  remedy %s", name, plain, f.Kind, f, f.Remedy)
			}
		}
	}
}

// TestFaultS15CarriageReturn has env look for a program whose name ends in CR.
func TestFaultS15CarriageReturn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "srv")
	if err := os.WriteFile(path, []byte("#!/usr/bin/env sh\r\necho\r\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	conn, err := Open(testContext(t), Spec{Command: path, Env: BaseEnv(nil)}, transport.Options{Inbound: func(transport.Inbound) {}})
	if err == nil {
		<-conn.Done()
		err = conn.Err()
		_ = conn.Close(testContext(t))
	}
	if f := fault.From("", err); !strings.Contains(f.Remedy, "CR LF") {
		t.Errorf("%v\n  remedy %s", f, f.Remedy)
	}
}
