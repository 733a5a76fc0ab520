package systest

import (
	"context"
	"encoding/binary"
	"net"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/mcptest"
)

// A names answers every question for an address of version 4 with one address;
// while it has none, no name exists.
type names struct{ address atomic.Pointer[net.IP] }

// resolve makes it the resolver of this whole process.
func (n *names) resolve(t *testing.T) {
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { // ends when the socket is closed
		defer close(ended)
		buf := make([]byte, 1500)
		for {
			size, from, err := socket.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = socket.WriteTo(n.answer(buf[:size]), from)
		}
	}()
	over, end := context.WithCancel(context.Background())
	// Never put back: a lookup that was given up may still read it, and the
	// process has no other test.
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "udp", socket.LocalAddr().String())
		if err == nil {
			context.AfterFunc(over, func() { _ = conn.Close() }) // or a lookup that was given up waits for its answer
		}
		return conn, err
	}}
	t.Cleanup(func() {
		end()
		socket.Close()
		<-ended
	})
}

// answer makes a message of RFC 1035, section 4.1, of a question.
func (n *names) answer(question []byte) []byte {
	const header, afterName = 12, 4
	end := header
	for question[end] != 0 {
		end += int(question[end]) + 1
	}
	end += 1 + afterName
	kind := binary.BigEndian.Uint16(question[end-afterName:])
	flags, answers := uint16(0x8180), uint16(0) // a response, without error
	var record []byte
	switch address := n.address.Load(); {
	case address == nil:
		flags |= 3 // no such name
	case kind == 1:
		answers = 1
		record = append([]byte{0xC0, header, 0, 1, 0, 1, 0, 0, 0, 0, 0, net.IPv4len}, address.To4()...)
	}
	a := append([]byte(nil), question[:end]...)
	for i, field := range []uint16{flags, 1, answers, 0, 0} {
		binary.BigEndian.PutUint16(a[2+2*i:], field)
	}
	return append(a, record...)
}

func (n *names) point(address string) {
	ip := net.ParseIP(address)
	n.address.Store(&ip)
}

// siteOn serves at an address, and returns what ends it with all connections.
func siteOn(t *testing.T, s *mcptest.Server, address string) (port string, end func()) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(s.Handler())
	srv.Listener.Close()
	srv.Listener = listener
	srv.Start()
	end = func() { s.Close(); srv.CloseClientConnections(); srv.Close() }
	_, port, _ = net.SplitHostPort(listener.Addr().String())
	return port, end
}

// The host moves: a name has no address for a while, and another one then.
// Nothing of the old address is remembered.
func TestAddressOfAHostChanges(t *testing.T) {
	const own = "EVERLINE_TEST_NAMES"
	if os.Getenv(own) == "" {
		again(t, t.Name(), own+"=1", "NO_PROXY=*") // the resolver is that of a whole process
		return
	}
	var dns names
	dns.resolve(t)
	dns.point("127.0.0.1")
	first, second := mcptest.New(mcptest.Config{}), mcptest.New(mcptest.Config{})
	port, end := siteOn(t, first, "127.0.0.1:0")
	hub := open(t, servers{"a": quick(map[string]any{"type": "http", "url": "http://moves.test:" + port + "/mcp"})}, everline.Options{})
	st := ready(t, hub, "a", 0)
	before := st.Generation
	together(t, hub, 5, "at the first address", first)

	dns.address.Store(nil)
	end()
	for whole := within(t); st.Cause == nil || !strings.Contains(st.Cause.Error(), "moves.test"); st, _ = hub.Server("a") {
		ctx, cancel := context.WithTimeout(whole, 100*time.Millisecond)
		_, err := hub.Call(ctx, &everline.Call{Method: "tools/call", Name: "echo", Params: []byte(`{"name":"echo"}`)})
		cancel()
		if err == nil || whole.Err() != nil {
			t.Fatalf("%+v: %v", st, err)
		}
	}
	if st.Cause.Kind != fault.Dial || len(toolNames(hub)) == 0 {
		t.Errorf("%v, tools %v", st.Cause, toolNames(hub))
	}

	_, end = siteOn(t, second, "127.0.0.2:"+port)
	defer end()
	dns.point("127.0.0.2")
	ready(t, hub, "a", before) // the attempt that runs already may find it
	together(t, hub, 5, "at the second address", second)
}
