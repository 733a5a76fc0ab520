package admin

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/door"
	"github.com/everline/everline/internal/mcp"
)

// unansweredHeader of the answer to a call names the request of the server that
// nobody answered.
const unansweredHeader = "Everline-Unanswered"

// A CallLine is one line of the answer to a call that serves forms: questions,
// and at last the result or the error. Such an answer is of the type
// application/x-ndjson; that of a call without a question is like any other's.
type CallLine struct {
	Question *Question       `json:"question,omitempty"`
	Result   json.RawMessage `json:"result,omitempty"`
	Error    *ErrorBody      `json:"error,omitempty"`
}

// A Question is a form that a server wants to be filled in during a call: the
// params of elicitation/create, raw.
type Question struct {
	ID     string          `json:"id"`
	Params json.RawMessage `json:"params"`
}

// A QuestionAnswer is the body of POST /v1/answer: the raw result of
// elicitation/create, {"action","content"}.
type QuestionAnswer struct {
	ID     string          `json:"id"`
	Result json.RawMessage `json:"result"`
}

// questions are those that wait for an answer, by id.
type questions struct {
	mu   sync.Mutex // guards wait; nothing waits under it
	wait map[string]chan json.RawMessage
}

func (q *questions) add() (id string, answer chan json.RawMessage) {
	id, answer = rand.Text(), make(chan json.RawMessage, 1)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.wait == nil {
		q.wait = map[string]chan json.RawMessage{}
	}
	q.wait[id] = answer
	return id, answer
}

// take takes a question out; nil if nobody waits for its answer any more.
func (q *questions) take(id string) chan json.RawMessage {
	q.mu.Lock()
	defer q.mu.Unlock()
	answer := q.wait[id]
	delete(q.wait, id)
	return answer
}

// A caller is the client of one call.
type caller struct {
	api   *API
	id    uint64
	forms bool

	mu    sync.Mutex // guards the rest, and is held while a line is written
	w     http.ResponseWriter
	out   *lineWriter // nil until there is a question
	asked string      // the newest method that was refused
}

// ID is that of the client; see everline.Client.
func (c *caller) ID() uint64 { return c.id }

// Notify hears what the server logs, which goes nowhere.
func (*caller) Notify(string, []byte) {}

// Capabilities are what modern servers are told.
func (c *caller) Capabilities() []byte {
	if !c.forms {
		return []byte(`{}`)
	}
	return []byte(`{"elicitation":{"form":{}}}`)
}

// Ask puts a form to the client that made the request.
func (c *caller) Ask(ctx context.Context, method string, params []byte) ([]byte, error) {
	var p struct{ Mode string }
	_ = json.Unmarshal(params, &p) // what is no form is shown without fields
	if !c.forms || method != mcp.ElicitationCreate || p.Mode == "url" {
		return nil, c.refuse(method)
	}
	id, answer := c.api.questions.add()
	defer c.api.questions.take(id)
	if err := c.write(CallLine{Question: &Question{id, bytes.Clone(params)}}); err != nil {
		return nil, fault.From(method, err)
	}
	select {
	case result := <-answer:
		return result, nil
	case <-ctx.Done():
		return nil, fault.From(method, ctx.Err())
	}
}

func (c *caller) refuse(method string) *fault.Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = method
	if method != mcp.ElicitationCreate || c.forms {
		return fault.New(fault.Unsupported, method, "everline serves forms alone here, and not "+method+": make the call from an MCP client")
	}
	return fault.New(fault.Unsupported, method, "nobody can answer here: make the call on a terminal or from an MCP client, or give the value as an argument of the tool")
}

// write writes one line, and sends it.
func (c *caller) write(l CallLine) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out == nil {
		c.out = newLineWriter(c.w)
	}
	if err := c.out.enc.Encode(l); err != nil {
		return err
	}
	return c.out.ctl.Flush()
}

// end writes what became of the call.
func (c *caller) end(result json.RawMessage, err error) {
	c.mu.Lock()
	streams, asked := c.out != nil, c.asked
	c.mu.Unlock()
	if !streams && asked != "" {
		c.w.Header().Set(unansweredHeader, asked)
	}
	switch {
	case !streams && err != nil:
		c.api.fail(c.w, err)
	case !streams:
		c.w.Header().Set("Content-Type", "application/json")
		_, _ = c.w.Write(result) // the error is the client's going away
	case err != nil:
		body := shapeError(fault.From("call", err), c.api.hide()).Error
		_ = c.write(CallLine{Error: &body}) // the error is the client's going away
	default:
		_ = c.write(CallLine{Result: result}) // the error is the client's going away
	}
}

// asking makes a call as a client of its own, with whom the server's questions
// end.
func (a *API) asking(ctx context.Context, w http.ResponseWriter, by *http.Request, req CallRequest, params []byte) {
	witness, f := a.witness(by, req)
	if f != nil {
		a.fail(w, f)
		return
	}
	c := &caller{api: a, id: door.NewClientID(), forms: req.Forms, w: w}
	r, err := a.opts.Hub.CallTool(ctx, req.Tool, nil, everline.AskedBy(c), func(call *everline.Call) {
		call.Server, call.Params, call.By = req.Server, params, callerBy(by)
		call.Observe = a.observer(witness, params)
	})
	witness.Over(ctx)
	if err != nil {
		c.end(nil, err)
		return
	}
	c.end(r.Raw, nil)
}

// answered takes the answer to a question.
func (a *API) answered(w http.ResponseWriter, r *http.Request) {
	var body QuestionAnswer
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxCall)).Decode(&body)
	var result map[string]json.RawMessage
	if err != nil || json.Unmarshal(body.Result, &result) != nil || result == nil {
		a.fail(w, &fault.Fault{Kind: fault.Invalid, Op: "answer", Outcome: fault.NotSent, Err: errors.New(`the body must be {"id","result"}, and the result an object`)})
		return
	}
	waiting := a.questions.take(body.ID)
	if waiting == nil {
		a.fail(w, &fault.Fault{Kind: fault.NotFound, Op: "answer", Outcome: fault.NotSent, Err: errors.New("nobody waits for this answer any more")})
		return
	}
	waiting <- body.Result // has a slot, and a question is taken once
	answer(w, http.StatusOK, struct{}{})
}

// readCall reads the answer to a call: each question is put to ask, one after
// the other, and what it returns goes to the server.
func (c *Client) readCall(ctx context.Context, resp *http.Response, ask func(params json.RawMessage) json.RawMessage) (json.RawMessage, error) {
	if resp.Header.Get("Content-Type") != "application/x-ndjson" {
		return io.ReadAll(resp.Body)
	}
	dec := json.NewDecoder(bufio.NewReader(resp.Body))
	for {
		var l CallLine
		if err := dec.Decode(&l); err != nil {
			return nil, fmt.Errorf("the answer ended early: %w", err)
		}
		switch {
		case l.Error != nil:
			return nil, l.Error.Fault()
		case l.Question == nil:
			return l.Result, nil
		}
		data, err := json.Marshal(QuestionAnswer{l.Question.ID, ask(l.Question.Params)})
		if err != nil {
			return nil, err
		}
		body, err := c.do(ctx, http.MethodPost, "/v1/answer", data)
		switch {
		case err == nil:
			body.Close()
		case fault.KindOf(err) != fault.NotFound: // the call may have ended meanwhile: its end comes
			return nil, err
		}
	}
}
