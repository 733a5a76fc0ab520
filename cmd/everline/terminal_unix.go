//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// knowsEscapes reports whether a terminal takes escape sequences: all do here.
func knowsEscapes(*os.File) bool { return true }

// inForeground reports whether we may read from our terminal: a process in the
// background is stopped when it tries.
func inForeground(terminal *os.File) bool {
	group, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
