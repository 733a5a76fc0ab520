package main

import (
	"os"

	"golang.org/x/sys/windows"
)

var (
	stopSignals   = []os.Signal{os.Interrupt, windows.SIGTERM}
	reloadSignals []os.Signal // there is no such signal
)

// errInUse is what listening on a taken address fails with.
const errInUse = windows.WSAEADDRINUSE
