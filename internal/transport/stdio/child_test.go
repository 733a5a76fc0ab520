package stdio

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// A childMessage is what the test server reads. It uses encoding/json, not our
// own scanner, so that each checks the other.
type childMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		N    int    `json:"n"`
		Step int    `json:"step"`
		Text string `json:"text"`
	} `json:"params"`
}

// child is the main function of the test binary when it acts as a server.
func child(mode string) {
	begin, end := "", "\n"
	switch mode {
	case "die":
		fmt.Fprint(os.Stderr, "first line\nsecond line\n")
		os.Exit(1)
	case "fast":
		childFast()
		return
	case "silent":
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	case "noread", "stubborn-noread":
		signal.Ignore(syscall.SIGTERM)
		select {}
	case "garbage":
		for {
			if _, err := fmt.Println("no message, however long one waits"); err != nil {
				return
			}
		}
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		defer func() { select {} }()
	case "bom":
		begin, end = "\xef\xbb\xbf", "\r\n"
	case "stderr":
		floodStderr()
	}
	fmt.Print(begin)
	input := bufio.NewReader(os.Stdin)
	for {
		line, err := input.ReadString('\n')
		if err != nil {
			return
		}
		var m childMessage
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			fmt.Fprintln(os.Stderr, "bad line:", err)
			os.Exit(3)
		}
		childAnswer(&m, mode, end)
	}
}

func floodStderr() {
	line := strings.Repeat("e", 99) + "\n"
	for range 1 << 20 / 100 {
		_, _ = os.Stderr.WriteString(line)
	}
}

func reply(id json.RawMessage, result any, end string) {
	raw, _ := json.Marshal(result)
	fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}%s`, id, raw, end)
}

// burnt is how much CPU time "burn" takes.
const burnt = 100 * time.Millisecond

// heldID is the id of the request "hold", answered at "release".
var heldID json.RawMessage

func childAnswer(m *childMessage, mode, end string) {
	if mode == "stderr" {
		floodStderr()
	}
	switch m.Method {
	case "echo":
		reply(m.ID, m.Params.Text, end)
	case "burn":
		childBurn(burnt)
		reply(m.ID, "burnt", end)
	case "exit":
		fmt.Fprintln(os.Stderr, "last words")
		os.Exit(m.Params.N)
	case "answer-exit":
		reply(m.ID, "done", end)
		os.Exit(m.Params.N)
	case "never":
	case "hold":
		heldID = m.ID
	case "release":
		reply(m.ID, "released", end)
		reply(heldID, "held", end)
	case "big":
		childBig(m)
	case "noise":
		fmt.Print("\n  \nLoading npm...\n\x1b[31mred\x1b[0m\n42\n\"text\"\n[1,2]\n{\"no\":\"message\"}\n{broken\n", strings.Repeat("x", 10<<10), "\n")
		reply(m.ID, "after noise", end)
	case "batch":
		fmt.Printf("[{\"method\":\"notifications/message\"},{\"id\":%s,\"result\":\"batched\"}]\n", m.ID)
	case "string-id":
		reply(json.RawMessage(`"`+string(m.ID)+`"`), "by string", end)
	case "wrong-id":
		reply(json.RawMessage(m.Params.Text), "by a wrong id", end)
	case "refuse":
		fmt.Print(`{"id":null,"error":{"code":-32601,"message":"no such notification"}}` + "\n")
	case "ask":
		fmt.Print(`{"id":"s1","method":"roots/list"}` + "\n")
		reply(m.ID, "asked", end)
	case "env":
		reply(m.ID, os.Environ(), end)
	case "pieces":
		line, _ := json.Marshal(m.Params.Text)
		line = fmt.Appendf(nil, `{"id":%s,"result":%s}`+"\n", m.ID, line)
		for len(line) > 0 {
			n := min(m.Params.Step, len(line))
			_, _ = os.Stdout.Write(line[:n])
			line = line[n:]
		}
	case "binary":
		_, _ = os.Stdout.Write(binaryNoise)
		reply(m.ID, "after binary", end)
	case "close-stdout":
		_ = os.Stdout.Close()
	case "stop-reading":
		reply(m.ID, "stopping", end)
		select {}
	case "grandchild":
		childSpawn(m)
	}
}

// childBig answers with a text of N bytes, in writes of Step bytes.
func childBig(m *childMessage) {
	line := fmt.Sprintf(`{"result":%q,"id":%s}`+"\n", strings.Repeat("b", m.Params.N), m.ID)
	step := m.Params.Step
	if step == 0 {
		step = len(line)
	}
	for len(line) > 0 {
		n := min(step, len(line))
		_, _ = os.Stdout.WriteString(line[:n])
		line = line[n:]
	}
}

// binaryNoise is every byte there is but the line end, and a line of them.
var binaryNoise = func() []byte {
	var b []byte
	for c := range 256 {
		if c != '\n' {
			b = append(b, byte(c))
		}
	}
	return append(b, "\n\x00\xff\xfe{\x80\n"...)
}()

// childSpawn starts a process that holds all of our streams and ignores what
// can be ignored.
func childSpawn(m *childMessage) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=stubborn-noread")
	if m.Params.Text == "session" {
		childLeave(cmd)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(4)
	}
	reply(m.ID, cmd.Process.Pid, "\n")
	if m.Params.Text == "fork" { // and off, as a daemon does
		os.Exit(0)
	}
}
