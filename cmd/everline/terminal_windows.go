package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// knowsEscapes makes a console take escape sequences, which it does not by
// itself, and reports whether it does.
func knowsEscapes(console *os.File) bool {
	if console == os.Stdin {
		return true // none are sent there
	}
	handle := windows.Handle(console.Fd())
	var mode uint32
	if windows.GetConsoleMode(handle, &mode) != nil {
		return false
	}
	return windows.SetConsoleMode(handle, mode|windows.ENABLE_PROCESSED_OUTPUT|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}

// inForeground is always so: there is no background that is stopped.
func inForeground(*os.File) bool { return true }
