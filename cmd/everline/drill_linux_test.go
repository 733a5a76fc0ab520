package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/everline/everline/internal/admin"
)

// terminal makes a pair: what a person types into, and what a program reads.
func terminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { person.Close() })
	fd := int(person.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return person, program
}

// TestDrillAsks: nobody breaks a server by a typo.
func TestDrillAsks(t *testing.T) {
	t.Parallel()
	for typed, meant := range map[string]bool{"y\n": true, "YES\n": true, "n\n": false, "\n": false, "yes please\n": false} {
		person, program := terminal(t)
		var talk bytes.Buffer
		a := &app{streams: &streams{stdin: program, stderr: &talk}}
		if _, err := person.WriteString(typed); err != nil {
			t.Fatal(err)
		}
		err := a.confirmDrill(context.Background(), admin.Server{Name: "one", State: "connected", Out: 1}, drillFlags{fault: "kill"})
		var code exit
		if asked := errors.As(err, &code); meant && err != nil || !meant && (!asked || code != exitFailed) {
			t.Errorf("%q: %v", typed, err)
		}
		if !strings.Contains(talk.String(), "This breaks one (connected, 1 call in flight) on purpose: kill. Go on? [y/N]") {
			t.Errorf("asked %q", talk.String())
		}
	}
	// Who interrupts the question has said no.
	_, program := terminal(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	a := &app{streams: &streams{stdin: program, stderr: &bytes.Buffer{}}}
	if err := a.confirmDrill(ctx, admin.Server{}, drillFlags{fault: "kill"}); err == nil {
		t.Error("an interrupt is taken for a yes")
	}
	if err := a.confirmDrill(ctx, admin.Server{}, drillFlags{fault: "kill", yes: true}); err != nil {
		t.Error(err)
	}
}
