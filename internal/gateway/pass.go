package gateway

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/event"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcp"
	"github.com/everline/everline/internal/wire"
)

// passTime is how long a notification may take to be written to its server: as long may
// the client's next message on the same connection wait for it.
const passTime = time.Second

// pass hands a notification that no revision defines to the server that it is for. It is
// written when pass returns, so that what the client sends next comes behind it. Nobody
// hears of a failure: a notification has no answer.
func (svc *service) pass(x *exchange) {
	server := svc.addressee(x)
	if server == "" {
		return
	}
	leave, refused := svc.admit(x)
	if refused != nil {
		return
	}
	if leave != nil {
		defer leave()
	}
	ctx, cancel := context.WithTimeout(context.Background(), passTime)
	defer cancel()
	out := &everline.Call{Method: x.Method, Server: server, Params: x.Params, Session: &x.sess.Isolated, By: svc.callers.of(x)}
	w, f := svc.witness(ctx, x, out)
	if f != nil {
		return
	}
	defer w.Over(ctx)
	err := svc.backend.Notify(ctx, out)
	if out.Observe == nil {
		return
	}
	facts := event.CallFacts{
		Server: server, Method: x.Method, Began: x.began, Took: time.Since(x.began), ParamBytes: len(x.Params), By: out.By, Client: x.sess.ID(),
	}
	if err != nil {
		f := fault.From(x.Method, err)
		facts.Result, facts.Kind = event.ResultOf(f), f.Kind
	}
	out.Observe(facts)
}

// The notifications of clients that revisions define, beside those of families.
var noticed = []string{"cancelled", "initialized", "message", "progress"}

// addressee is the server that a notification of no revision is for: the one that its _meta
// names, if that has declared any extension, or the only one that has declared an extension
// by whose name the method begins. "" for none.
func (svc *service) addressee(x *exchange) string {
	method := strings.TrimPrefix(x.Method, "notifications/")
	family, _, _ := strings.Cut(method, "/")
	if x.Modern || x.sess == nil || slices.Contains(families, family) || slices.Contains(noticed, method) {
		return ""
	}
	name, named := wire.Text(wire.Get(x.Params, "_meta", mcp.MetaServer))
	only := ""
	for server, declared := range svc.backend.Catalog().Capabilities() {
		switch {
		case named && server != name, !extends(declared, method, named):
		case only != "":
			return ""
		default:
			only = server
		}
	}
	return only
}

// extends tells whether a server has declared an extension, or an experimental capability,
// by whose name a method begins; with any set, whether it has declared one at all.
func extends(capabilities []byte, method string, anyOne bool) bool {
	for _, part := range []string{"extensions", "experimental"} {
		for name := range wire.Members(wire.Get(capabilities, part)) {
			if rest, begins := strings.CutPrefix(method, name); anyOne || begins && (rest == "" || rest[0] == '/') {
				return true
			}
		}
	}
	return false
}
