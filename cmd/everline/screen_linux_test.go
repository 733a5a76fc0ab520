package main

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/everline/everline/fault"
)

// TestScreenTakesNoOrders: a server's escape codes do not reach a terminal, and
// a program gets them as they are.
func TestScreenTakesNoOrders(t *testing.T) {
	t.Parallel()
	const raw = `{"content":[{"type":"text","text":"a\u001b[2Jb\nnext"}]}`
	person, program := terminal(t)
	a := &app{streams: &streams{stdout: &checked{to: program}}}
	if err := a.printResult([]byte(raw)); err != nil {
		t.Fatal(err)
	}
	if got := readScreen(t, person, "next"); strings.Contains(got, "\x1b") || !strings.Contains(got, "<U+001B>[2Jb\r\nnext") {
		t.Errorf("the terminal got %q", got)
	}
	var piped bytes.Buffer
	a.stdout = &piped
	if err := a.printResult([]byte(raw)); err != nil || piped.String() != "a\x1b[2Jb\nnext\n" {
		t.Errorf("a program got %q, %v", piped.String(), err)
	}
	var talk bytes.Buffer
	report(&talk, ran{&fault.Fault{Kind: fault.RPC, Server: "a", Err: errors.New("no\x1b[2J")}})
	if strings.Contains(talk.String(), "\x1b") {
		t.Errorf("an error reads %q", talk.String())
	}
}

// TestProgressOnATerminal: the line is shown where there is one.
func TestProgressOnATerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	person, program := terminal(t)
	talk := newTalk(program)
	defer talk.close()
	a := &app{streams: &streams{stderr: talk}}
	p := a.progress(func() string { return "one is connecting" })
	defer p.stop()
	if got := readScreen(t, person, "one is connecting"); !strings.HasPrefix(got, "\r1.") {
		t.Errorf("the terminal got %q", got)
	}
}

// readScreen reads what came to the terminal, until a text is there. A pair
// that says nothing fails at the test's own deadline.
func readScreen(t *testing.T, person *os.File, until string) string {
	t.Helper()
	var got []byte
	buf := make([]byte, 4096)
	for !strings.Contains(string(got), until) {
		n, err := person.Read(buf)
		if err != nil {
			t.Fatalf("after %q: %v", got, err)
		}
		got = append(got, buf[:n]...)
	}
	return string(got)
}

// TestFaultV8OnATerminal has a result with what hides in a text: as a text it is
// written out, as JSON it is escaped.
func TestFaultV8OnATerminal(t *testing.T) {
	t.Parallel()
	const raw = "{\"content\":[{\"type\":\"text\",\"text\":\"a\u202e\u200b\u009b2Jb\U000e0041 end\"}],\"isError\":false}"
	for output, want := range map[string]string{
		"table": "a<U+202E><U+200B><U+009B>2Jb<U+E0041> end",
		"json":  `a\u202e\u200b\u009b2Jb\udb40\udc41 end"}],"isError":false}`,
	} {
		person, program := terminal(t)
		a := &app{streams: &streams{stdout: &checked{to: program}}, output: output}
		if err := a.printResult([]byte(raw)); err != nil {
			t.Fatal(err)
		}
		if got := readScreen(t, person, "\n"); !strings.Contains(got, want) {
			t.Errorf("%s: the terminal got %q, want %q", output, got, want)
		}
	}
}
