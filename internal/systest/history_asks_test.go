package systest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/door"
	"github.com/everline/everline/internal/mcptest"
)

// historyNobodies is how many of the clients of a round serve no requests: their
// calls are made without a Client.
const historyNobodies = 2

// asks tells whether the servers of the stage have requests.
func (st stage) asks() bool { return slices.Contains(st.faults, "ask") }

// ask puts a question for the call of a deed, unless that was canceled.
func (l *ledger) ask(s *mcptest.Server, r *mcptest.Request, deed string) {
	id := fmt.Sprintf("%q", "ask-"+deed)
	canceled := func() bool { return slices.Contains(s.Cancelled(), string(r.ID)) }
	l.talk.Lock()
	if canceled() {
		l.talk.Unlock()
		return
	}
	r.Send(`{"jsonrpc":"2.0","id":` + id + `,"method":"elicitation/create","params":{"message":"` + deed + `","requestedSchema":{"type":"object","properties":{}}}}`)
	l.talk.Unlock()
}

// asks are the questions of one round, and whom they reached.
type asks struct {
	mu      sync.Mutex
	clients map[int]*historyClient
	reached map[string][]int // by deed
}

// A historyClient notes what it is asked.
type historyClient struct {
	all *asks
	n   int
	id  uint64
}

// client is who a deed is for; nil: nobody.
func (a *asks) client(d *deed) everline.Client {
	if d.nobody {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.clients == nil {
		a.clients, a.reached = map[int]*historyClient{}, map[string][]int{}
	}
	if a.clients[d.client] == nil {
		a.clients[d.client] = &historyClient{a, d.client, door.NewClientID()}
	}
	return a.clients[d.client]
}

func (a *asks) of(deed string) []int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reached[deed]
}

func (c *historyClient) ID() uint64 { return c.id }

func (c *historyClient) Ask(_ context.Context, method string, params []byte) ([]byte, error) {
	var p struct{ Message string }
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, fault.From(method, err)
	}
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	c.all.reached[p.Message] = append(c.all.reached[p.Message], c.n)
	return []byte(`{"action":"accept","content":{}}`), nil
}

func (*historyClient) Notify(string, []byte) {}

// amongOthers does a deed beside those of the other clients.
func (r *round) amongOthers(d *deed, mischief string) []*deed {
	r.quiet.RLock()
	defer r.quiet.RUnlock()
	r.do(d, mischief)
	return []*deed{d}
}

// alone does two deeds at a time of a client while no other has calls in flight;
// or one of the client, and one of nobody that the server asks for.
func (r *round) alone(like *deed, both bool) []*deed {
	r.quiet.Lock()
	defer r.quiet.Unlock()
	one := &deed{client: like.client, nobody: like.nobody, id: like.id + "-a", limit: time.Second}
	two := &deed{client: like.client, nobody: like.nobody || !both, id: like.id + "-b", limit: time.Second}
	var calls sync.WaitGroup
	calls.Go(func() { r.do(one, map[bool]string{true: "ask", false: "slow"}[both]) })
	calls.Go(func() { r.do(two, "ask") })
	calls.Wait()
	return []*deed{one, two}
}
