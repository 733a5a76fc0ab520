package transport

import (
	"context"
	"fmt"
	"testing"

	"github.com/everline/everline/fault"
)

// Lines that only look like answers fail nobody, and glued ones are not lost.
func TestFaultS3_WhatIsNoBrokenAnswer(t *testing.T) {
	mux := NewMux(Options{Inbound: func(Inbound) {}})
	a, _ := mux.Register(&Request{ID: 7, Method: "a"})
	b, _ := mux.Register(&Request{ID: 8, Method: "b"})
	for _, line := range []string{
		`{"level":"info","id":7,"msg":"done"}`,
		`{"level":"info","id":7,"msg":"do"ne"}`,
		`sent {"jsonrpc":"2.0","id":7,"result":NaN}`,
		`{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{NaN}}`,
		`{"jsonrpc":"2.0","result":{"items":[{"id":7}`,
	} {
		mux.Deliver([]byte(line))
	}
	if len(mux.waiters) != 2 || mux.noise != 5 {
		t.Fatalf("%d calls wait, %d noise lines", len(mux.waiters), mux.noise)
	}
	mux.Deliver([]byte(`{"jsonrpc":"2.0","id":7,"result":{}}{"jsonrpc":"2.0","id":8,"result":NaN}`))
	if _, err := mux.Await(t.Context(), 7, a); err != nil {
		t.Error(err)
	}
	_, err := mux.Await(t.Context(), 8, b)
	wantFault(t, err, fault.Protocol, fault.Unknown)

	// A broken answer that lost its id is meant for the only call that waits.
	c, _ := mux.Register(&Request{ID: 9, Method: "c"})
	mux.Deliver([]byte(`{"jsonrpc":"2.0","result":{"content":[`))
	_, err = mux.Await(t.Context(), 9, c)
	wantFault(t, err, fault.Protocol, fault.Unknown)
}

func TestMuxRefusesAnIDTwice(t *testing.T) {
	m := NewMux(Options{})
	w, f := m.Register(&Request{ID: 1, Method: "a"})
	if f != nil {
		t.Fatal(f)
	}
	if _, f := m.Register(&Request{ID: 1, Method: "b"}); f == nil || f.Kind != fault.Internal || f.Outcome != fault.NotSent {
		t.Errorf("got %v", f)
	}
	if _, answered := m.forget(1, w); answered {
		t.Error("nobody answered")
	}
}

// An answer that arrives while its caller gives up is not lost for the next
// user of the waiter.
func TestMuxAnswerMeetsCancel(t *testing.T) {
	m := NewMux(Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for id := range int64(1000) {
		w, _ := m.Register(&Request{ID: id, Method: "a"})
		go m.Deliver(fmt.Appendf(nil, `{"id":%d,"result":%d}`, id, id)) // ends by itself
		msg, err := m.Await(ctx, id, w)
		if err == nil && string(msg.Result) != fmt.Sprint(id) {
			t.Fatalf("call %d got the answer %s", id, msg.Result)
		}
	}
}

// wantFault checks kind and outcome of an error and returns it.
func wantFault(t *testing.T, err error, kind fault.Kind, outcome fault.Outcome) *fault.Fault {
	t.Helper()
	f := fault.From("", err)
	if f == nil || f.Kind != kind || f.Outcome != outcome {
		t.Fatalf("got %v, want %v, %v", err, kind, outcome)
	}
	return f
}
