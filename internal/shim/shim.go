// Package shim is the small process between everline and a server: it starts
// the server, hands it our streams untouched, and makes sure that nothing of
// the server outlives it, whatever becomes of everline. It carries no message
// and knows no protocol.
//
// It is this same program, started again. What the package imports, and
// whatever comes before it in the order of initialization then, runs before a
// shim gets to work; so it does without strings and bytes, which need the
// tables of unicode. The side of everline is in internal/transport/stdio.
package shim

import (
	"errors"
	"strconv"
	"sync/atomic"
	"time"
)

// What tells a shim from any other start of the program.
const (
	Name = "everline-shim" // argv[0]
	Var  = "EVERLINE_SHIM" // environment variable, with Tag as its value
	Tag  = "1"
)

// The file descriptors of a shim, beyond the three that it hands on.
const (
	controlFD = 3 // a Spec, then commands; its end means: end everything
	statusFD  = 4 // reports
)

// Version is the form of a Spec. A shim outlives the program file that it was
// started from, so everline and its shims may be of different releases: the
// form of a Spec, the commands and the reports of one version never change. A new
// meaning is a new byte, and a byte that is not known is ignored.
const Version = "2"

// Commands are single bytes from everline.
const (
	CommandTerm = 'T' // ask everything to end
	CommandKill = 'K' // end everything by force
)

// Reports are a byte and a number of 32 bits, the lowest byte first.
const (
	ReportStarted = 'S' // the server's process id
	ReportFailed  = 'E' // the errno of the start
	ReportCgroup  = 'C' // the errno of entering the cgroup; the server is started nevertheless
	ReportExited  = 'X' // the server's wait status
	ReportSize    = 5
)

// A Spec says what a shim is to start.
type Spec struct {
	Path   string   // absolute
	Args   []string // with the name of the program
	Env    []string // all of it
	Dir    string   // "": ours
	Cgroup string   // the cgroup to enter before; "": none
	// Privileges lets the server's processes gain some by what they start, as sudo
	// does. Elsewhere than on Linux they always can.
	Privileges bool
	// Grace is the time from SIGTERM to SIGKILL where everline is gone.
	Grace time.Duration
}

// sizeDigits is how a frame begins: its length in hexadecimal digits.
const sizeDigits = 8

// Encode makes the bytes that a shim reads first. Everything in a Spec goes to
// execve, so a NUL cannot be in it and parts the fields.
func (s Spec) Encode() []byte {
	frame := make([]byte, sizeDigits, 4<<10)
	add := func(field string) { frame = append(append(frame, field...), 0) }
	for _, field := range []string{Version, s.Path, s.Dir, s.Cgroup, strconv.FormatInt(int64(s.Grace), 10), s.flags(), strconv.Itoa(len(s.Args))} {
		add(field)
	}
	for _, list := range [][]string{s.Args, s.Env} {
		for _, field := range list {
			add(field)
		}
	}
	size := strconv.FormatInt(int64(len(frame)-sizeDigits), 16)
	for i := range sizeDigits {
		frame[i] = '0'
	}
	copy(frame[sizeDigits-len(size):], size)
	return frame
}

// mayGain is the flag of Privileges. A flag that is not known is ignored.
const mayGain = 'p'

func (s Spec) flags() string {
	if s.Privileges {
		return string(mayGain)
	}
	return ""
}

func hasFlag(flags string, flag byte) bool {
	for i := range len(flags) {
		if flags[i] == flag {
			return true
		}
	}
	return false
}

var (
	errSpec    = errors.New("bug: a shim got no usable order")
	errVersion = errors.New("the order is of another release of everline")
)

// decode reads the body of an encoded Spec.
func decode(body string) (Spec, error) {
	var fields []string
	for start, i := 0, 0; i < len(body); i++ {
		if body[i] == 0 {
			fields = append(fields, body[start:i])
			start = i + 1
		}
	}
	if len(fields) < 1 || fields[0] != Version {
		return Spec{}, errVersion
	}
	if len(fields) < 7 {
		return Spec{}, errSpec
	}
	grace, err := strconv.ParseInt(fields[4], 10, 64)
	n, err2 := strconv.Atoi(fields[6])
	rest := fields[7:]
	if err != nil || err2 != nil || n < 1 || n > len(rest) {
		return Spec{}, errSpec
	}
	return Spec{
		Path: fields[1], Dir: fields[2], Cgroup: fields[3], Grace: time.Duration(grace),
		Privileges: hasFlag(fields[5], mayGain), Args: rest[:n], Env: rest[n:],
	}, nil
}

var allowed atomic.Bool

// Allow lets this program be started again as a shim. See everline.RunShim.
func Allow() { allowed.Store(true) }

// Allowed tells whether Allow was called, and shims exist on this system.
func Allowed() bool { return supported && allowed.Load() }
