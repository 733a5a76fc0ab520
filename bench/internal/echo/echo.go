// Package echo is the MCP server that gateways are measured with, over stdio
// and Streamable HTTP, in two makes: one that costs as little as can be, so
// that the gateway in front of it shows, and one made with go-sdk, which costs
// what servers usually cost. It is no example of how to write a server.
//
// Tools: echo (returns its text), blob (returns a text of so many bytes), work
// (notes its id in the log of executions, waits, and may not be repeated),
// work_again (the same, but harmless to repeat), and fillers.
package echo

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/everline/everline/internal/wire"
)

// Options say what a server is like.
type Options struct {
	Name   string // tells servers apart in the list of processes, and nowhere else
	Make   string // "plain" or "sdk"
	Listen string // host:port of Streamable HTTP at every path; "": stdio
	Tools  int    // how many tools it lists, at least 4
	Log    string // file that gets a line for each execution of work; "": none
	Delay  time.Duration
}

// Role is the first argument of a program that is to be this server.
const Role = "echo"

// Argv is how exe is started as a server with these options. No argument is
// empty or has a space in it, because some gateways take a command as one text.
func Argv(exe string, o Options) []string {
	return []string{exe, Role, "-name=" + o.Name, "-make=" + o.Make, "-listen=" + o.Listen, fmt.Sprint("-tools=", o.Tools), "-log=" + o.Log, fmt.Sprint("-delay=", o.Delay)}
}

// Is tells from a command line whether it is that of a server.
func Is(exe string, argv []string) bool { return len(argv) > 1 && argv[0] == exe && argv[1] == Role }

// Main serves as the arguments behind the role say, until stdin ends.
func Main(args []string) error {
	var o Options
	f := flag.NewFlagSet(Role, flag.ContinueOnError)
	f.StringVar(&o.Name, "name", "", "tells servers apart in the list of processes")
	f.StringVar(&o.Make, "make", "plain", "plain or sdk")
	f.StringVar(&o.Listen, "listen", "", "address of Streamable HTTP; stdio without it")
	f.IntVar(&o.Tools, "tools", 5, "how many tools there are")
	f.StringVar(&o.Log, "log", "", "file that gets a line for each execution")
	f.DurationVar(&o.Delay, "delay", 0, "time before anything is served")
	if err := f.Parse(args); err != nil {
		return err
	}
	time.Sleep(o.Delay)
	if o.Make == "sdk" {
		return serveSDK(o)
	}
	if o.Listen == "" {
		b, err := newBrain(o)
		if err != nil {
			return err
		}
		return b.serve(os.Stdin, os.Stdout)
	}
	h, err := Handler(o)
	if err != nil {
		return err
	}
	return listen(o.Listen, h)
}

// listen serves HTTP until stdin ends, so that no server outlives its driver.
func listen(address string, h http.Handler) error {
	s := &http.Server{Addr: address, Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() { // ends with stdin, or with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = s.Close()
	}()
	return s.ListenAndServe()
}

// A brain answers messages.
type brain struct {
	list []byte // the result of tools/list
	log  *execLog

	out sync.Mutex // keeps lines on stdout whole
}

func newBrain(o Options) (*brain, error) {
	l, err := openLog(o.Log)
	if err != nil {
		return nil, err
	}
	return &brain{list: []byte(`{"tools":[` + strings.Join(tools(o.Tools), ",") + `]}`), log: l}, nil
}

// serve answers lines until in ends. What waits runs on a goroutine of its own.
func (b *brain) serve(in io.Reader, out io.Writer) error {
	r := bufio.NewReaderSize(in, 64<<10)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	var buf []byte
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		m, err := wire.Parse(line)
		if err != nil || !m.IsRequest() {
			continue
		}
		if ms := b.wait(&m); ms > 0 {
			waiting.Go(func() { b.write(out, b.answer(nil, &m, ms)) })
			continue
		}
		buf = b.answer(buf[:0], &m, 0)
		b.write(out, buf)
	}
}

func (b *brain) write(out io.Writer, frame []byte) {
	b.out.Lock()
	defer b.out.Unlock()
	_, _ = out.Write(append(frame, '\n')) // a client that is gone is seen by the reader
}

// wait is how long the request is to be worked on; 0: no time worth a goroutine.
func (b *brain) wait(m *wire.Message) time.Duration {
	if m.Method != "tools/call" {
		return 0
	}
	ms, _ := wire.Int(wire.Get(m.Params, "arguments", "ms"))
	return time.Duration(ms) * time.Millisecond
}

// answer appends the answer to a request, after it was worked on.
func (b *brain) answer(dst []byte, m *wire.Message, wait time.Duration) []byte {
	switch m.Method {
	case "initialize":
		version, _ := wire.Text(wire.Get(m.Params, "protocolVersion"))
		if version == "" {
			version = "2025-06-18"
		}
		return wire.AppendResult(dst, m.ID, []byte(`{"protocolVersion":"`+version+`","capabilities":{"tools":{}},"serverInfo":{"name":"echo","version":"1"}}`))
	case "ping":
		return wire.AppendResult(dst, m.ID, nil)
	case "tools/list":
		return wire.AppendResult(dst, m.ID, b.list)
	case "tools/call":
		return b.call(dst, m, wait)
	default:
		return wire.AppendError(dst, m.ID, -32601, "method not found", nil)
	}
}

func (b *brain) call(dst []byte, m *wire.Message, wait time.Duration) []byte {
	args := wire.Get(m.Params, "arguments")
	name, _ := wire.Text(wire.Get(m.Params, "name"))
	switch name {
	case "echo":
		return b.text(dst, m.ID, wire.Get(args, "text"))
	case "blob":
		n, _ := wire.Int(wire.Get(args, "bytes"))
		return b.text(dst, m.ID, blob(int(n)))
	case "work", "work_again":
		raw := wire.Get(args, "id")
		id, _ := wire.Text(raw)
		b.log.add(id)
		time.Sleep(wait)
		return b.text(dst, m.ID, raw)
	default:
		return wire.AppendError(dst, m.ID, -32602, "unknown tool", nil)
	}
}

// text appends a result whose text is the raw JSON string.
func (b *brain) text(dst, id, raw []byte) []byte {
	dst = append(append(dst, `{"jsonrpc":"2.0","id":`...), id...)
	dst = append(append(dst, `,"result":{"content":[{"type":"text","text":`...), raw...)
	return append(dst, `}]}}`...)
}

var (
	blobMu sync.Mutex // guards blobs
	blobs  = map[int][]byte{}
)

// blob is a JSON string of n bytes, made once for each n.
func blob(n int) []byte {
	blobMu.Lock()
	defer blobMu.Unlock()
	if blobs[n] == nil {
		blobs[n] = []byte(`"` + strings.Repeat("x", n) + `"`)
	}
	return blobs[n]
}

// hints of the tools that may be repeated.
var hints = map[string]string{"echo": "readOnlyHint", "blob": "readOnlyHint", "work_again": "idempotentHint"}

const (
	fillerText   = "Looks like a tool that one meets every day: it takes a question, a limit and some labels, and gives nothing back that matters."
	fillerSchema = `{"type":"object","properties":{"question":{"type":"string","description":"What is wanted."},"limit":{"type":"integer","minimum":1,"maximum":100,"description":"No more results than this."},"labels":{"type":"array","items":{"type":"string"},"description":"Labels that each result must have."}},"required":["question"]}`
	plainSchema  = `{"type":"object"}`
)

func tools(n int) []string {
	all := make([]string, 0, n)
	for _, name := range toolNames(n) {
		text, schema := fillerText, fillerSchema
		if !strings.HasPrefix(name, "filler_") {
			text, schema = "The tool "+name+" of the benchmark.", plainSchema
		}
		hint := ""
		if h := hints[name]; h != "" {
			hint = `,"annotations":{"` + h + `":true}`
		}
		all = append(all, fmt.Sprintf(`{"name":%q,"description":%q,"inputSchema":%s%s}`, name, text, schema, hint))
	}
	return all
}

func toolNames(n int) []string {
	names := []string{"echo", "blob", "work", "work_again"}
	for i := len(names); i < n; i++ {
		names = append(names, fmt.Sprintf("filler_%04d", i))
	}
	return names
}

// An execLog notes executions, each with one write, so that none is lost when
// the server is killed. The zero value notes nothing.
type execLog struct{ file *os.File }

func openLog(path string) (*execLog, error) {
	if path == "" {
		return &execLog{}, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	return &execLog{f}, err
}

func (l *execLog) add(id string) {
	if l.file != nil {
		_, _ = l.file.WriteString(id + "\n") // a missing line shows as a call that failed without being executed
	}
}
