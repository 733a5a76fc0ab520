//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

var (
	stopSignals   = []os.Signal{unix.SIGINT, unix.SIGTERM}
	reloadSignals = []os.Signal{unix.SIGHUP}
)

// errInUse is what listening on a taken address fails with.
const errInUse = unix.EADDRINUSE
