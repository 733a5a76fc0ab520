package demo

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// A server is the MCP server that the demo breaks: legacy era, three tools.
// It writes one line per execution to a ledger, with a single write to a file
// opened for appending, so that nothing that ran is forgotten by a kill -9.
type server struct {
	name   string
	ledger *os.File
	work   time.Duration // what one execution takes
}

const protocol = "2025-06-18"

// tools are listed as they are. look is read-only, set may be repeated, pay
// must not run twice.
const tools = `[{"name":"look","description":"Reads something.","inputSchema":{"type":"object","properties":{"id":{"type":"string"}}},"annotations":{"readOnlyHint":true}},` +
	`{"name":"set","description":"Sets something; again makes no difference.","inputSchema":{"type":"object","properties":{"id":{"type":"string"}}},"annotations":{"idempotentHint":true}},` +
	`{"name":"pay","description":"Pays something; must not run twice.","inputSchema":{"type":"object","properties":{"id":{"type":"string"}}},"annotations":{"destructiveHint":true}}]`

// toolCount is how many tools one server lists.
const toolCount = 3

func newServer(name, ledger string) (*server, error) {
	f, err := os.OpenFile(ledger, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &server{name: name, ledger: f, work: 2 * time.Millisecond}, nil
}

// answer returns the reply to one message; nil for a notification.
func (s *server) answer(m *wire.Message) []byte {
	if !m.IsRequest() {
		return nil
	}
	switch m.Method {
	case mcp.Initialize:
		return wire.AppendResult(nil, m.ID, []byte(`{"protocolVersion":"`+protocol+`","capabilities":{"tools":{}},"serverInfo":{"name":"`+s.name+`","version":"1"}}`))
	case mcp.Ping:
		return wire.AppendResult(nil, m.ID, []byte(`{}`))
	case mcp.ToolsList:
		return wire.AppendResult(nil, m.ID, []byte(`{"tools":`+tools+`}`))
	case mcp.ToolsCall:
		return s.call(m)
	default:
		return wire.AppendError(nil, m.ID, mcp.CodeMethodNotFound, "method not found: "+m.Method, nil)
	}
}

func (s *server) call(m *wire.Message) []byte {
	tool, _ := wire.Text(wire.Get(m.Params, "name"))
	id, _ := wire.Text(wire.Get(m.Params, "arguments", "id"))
	if !strings.Contains(tools, `"name":"`+tool+`"`) || tool == "" {
		return wire.AppendError(nil, m.ID, mcp.CodeInvalidParams, "unknown tool: "+tool, nil)
	}
	if _, err := fmt.Fprintf(s.ledger, "%s %s\n", tool, id); err != nil {
		return wire.AppendError(nil, m.ID, mcp.CodeInternal, "the ledger cannot be written: "+err.Error(), nil)
	}
	time.Sleep(s.work)
	return wire.AppendResult(nil, m.ID, []byte(`{"content":[{"type":"text","text":`+string(wire.AppendString(nil, tool+" "+id))+`}]}`))
}

// ServeStdio runs the built-in server as a child: it answers on out what it
// reads on in, calls side by side, until in ends.
func ServeStdio(name, ledger string, in io.Reader, out io.Writer) error {
	s, err := newServer(name, ledger)
	if err != nil {
		return err
	}
	defer s.ledger.Close()
	answers := make(chan []byte, 64)
	written := make(chan error, 1)
	go func() { written <- writeLines(out, answers) }() // ends when answers is closed, below
	err = s.readLines(in, answers)
	close(answers)
	if werr := <-written; err == nil {
		err = werr
	}
	return err
}

func (s *server) readLines(in io.Reader, answers chan<- []byte) error {
	r := bufio.NewReader(in)
	slots := make(chan struct{}, 64) // bounds the calls at a time
	defer func() {
		for range cap(slots) {
			slots <- struct{}{} // every call has given its answer
		}
	}()
	for {
		line, err := r.ReadBytes('\n')
		if m, perr := wire.Parse(line); perr == nil {
			slots <- struct{}{}
			go func() { // ends with its answer; waited for above
				defer func() { <-slots }()
				if a := s.answer(&m); a != nil {
					answers <- a
				}
			}()
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func writeLines(out io.Writer, answers <-chan []byte) error {
	var failed error
	for a := range answers {
		if failed == nil {
			_, failed = out.Write(append(a, '\n'))
		}
	}
	return failed
}
