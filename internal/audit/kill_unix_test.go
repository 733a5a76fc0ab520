//go:build unix

package audit

import (
	"bufio"
	"context"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	switch folder := os.Getenv("EVERLINE_TEST_AUDIT"); os.Getenv("EVERLINE_TEST_ROLE") {
	case "write":
		writeForEver(folder)
	case "full":
		fillUp(folder)
	default:
		os.Exit(m.Run())
	}
}

func fatal(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

// writeForEver writes records, and says up to which one they are in the file.
func writeForEver(folder string) {
	s := settings()
	s.MaxFile = 256 << 10
	l, err := Open(Options{Folder: folder, Run: fmt.Sprintf("%08x", os.Getpid()), Settings: s})
	fatal(err)
	long := strings.Repeat("x", 200)
	for i := 1; ; i++ {
		r := call(i)
		r.Target.Exposed = long
		l.Note(r)
		if i%100 == 0 {
			fatal(l.Written(context.Background()))
			fmt.Println(i)
		}
	}
}

// TestKilledWhileItWrites kills a real process in the middle of its work, again and
// again: at most the last line is torn, verify says so, and what was said to be in
// the file is there.
func TestKilledWhileItWrites(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "audit")
	torn, found, rounds := 0, 0, 40
	if testing.Short() {
		rounds = 10
	}
	for round := range rounds {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "EVERLINE_TEST_ROLE=write", "EVERLINE_TEST_AUDIT="+folder)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		said, lines := 0, bufio.NewScanner(out)
		for until := 1 + rand.Intn(20); lines.Scan(); {
			if said, err = strconv.Atoi(lines.Text()); err != nil {
				t.Fatal(err)
			}
			if until--; until == 0 {
				spin(rand.Intn(300))
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait() // says that it was killed
		v := verify(t, folder)
		if !v.Intact || len(v.Torn) > torn+1 || v.Lost != 0 {
			t.Fatalf("round %d: %+v", round, v)
		}
		found += len(v.Torn) - torn
		torn = len(v.Torn)
		most := 0
		run := fmt.Sprintf("%08x-", cmd.Process.Pid)
		for _, r := range all(t, folder) {
			if strings.HasPrefix(r.ID, run) && r.Type == TypeCall {
				most, _ = strconv.Atoi(r.Request.ID)
			}
		}
		if most < said {
			t.Fatalf("round %d: record %d was said to be in the file, the last one there is %d", round, said, most)
		}
		if err := os.RemoveAll(folder); round%20 == 19 && err != nil {
			t.Fatal(err)
		}
		if round%20 == 19 {
			torn = 0
		}
	}
	t.Logf("%d of %d rounds tore a line", found, rounds)
}

// spin takes about so many microseconds: a sleep would let the process come to rest.
func spin(us int) {
	for begun := time.Now(); time.Since(begun) < time.Duration(us)*time.Microsecond; {
	}
}

// A disk that is full loses nothing while there is room to wait, refuses what must
// be recorded, and goes on where it stopped once there is space.
func TestDiskIsFull(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "audit")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "EVERLINE_TEST_ROLE=full", "EVERLINE_TEST_AUDIT="+folder)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	v := verify(t, folder)
	if !v.Intact || v.Lost != 50 || len(v.Torn) != 0 || v.Records != maxQueue+150+1 {
		t.Errorf("%+v", v)
	}
}

// fillUp lets files grow to a limit, which is what a full disk looks like.
func fillUp(folder string) {
	signal.Ignore(syscall.SIGXFSZ)
	s := settings()
	s.Strict = true
	warned := 0
	l, err := Open(Options{Folder: folder, Run: "1", Settings: s, Warn: func(string, error) { warned++ }})
	fatal(err)
	ctx := context.Background()
	for i := range 150 {
		l.Note(call(i))
	}
	fatal(l.Sync(ctx))
	var limit syscall.Rlimit
	fatal(syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
	info, err := os.Stat(filepath.Join(folder, name{}.next(time.Now().UTC().Format(dayForm)).String()))
	fatal(err)
	low := limit
	low.Cur = uint64(info.Size()) + 100 // within a line
	fatal(syscall.Setrlimit(syscall.RLIMIT_FSIZE, &low))
	for i := range maxQueue + 50 {
		l.Note(call(i))
	}
	if l.Sync(ctx) == nil || l.trouble.now() == nil || warned != 1 || l.Lost() != 50 {
		fatal(fmt.Errorf("nobody says that the disk is full: %d warnings, %d lost", warned, l.Lost()))
	}
	if _, f := l.Reserve("tools/call"); f == nil {
		fatal(fmt.Errorf("a call goes ahead"))
	}
	fatal(syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	for l.Sync(ctx) != nil { // an attempt with the old limit may be under way
	}
	if place, f := l.Reserve("tools/call"); f != nil {
		fatal(f)
	} else {
		place.Free()
	}
	fatal(l.Close(ctx))
	os.Exit(0)
}
