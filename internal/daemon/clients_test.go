package daemon

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/everline/everline/config"
)

func TestFaultV1OtherUsersAreTurnedAway(t *testing.T) {
	const stranger = 4711
	for name, test := range map[string]struct {
		clients config.Clients
		uid     int
		known   bool
		status  int
	}{
		"the user":                  {config.ClientsSameUser, os.Geteuid(), true, 200},
		"root":                      {config.ClientsSameUser, 0, true, 200},
		"another user":              {config.ClientsSameUser, stranger, true, 403},
		"somebody who is not known": {config.ClientsSameUser, 0, false, 200},
		"another user, let in":      {config.ClientsAnyLocal, stranger, true, 200},
	} {
		t.Run(name, func(t *testing.T) {
			inner, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			var log strings.Builder
			l := withUsers(inner, func() config.Clients { return test.clients }, slog.New(slog.NewTextHandler(&log, nil)))
			l.uidOf = func(net.Conn) (int, bool) { return test.uid, test.known }
			served := 0
			srv := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ })}
			done := make(chan struct{})
			go func() { // ends with Close
				defer close(done)
				_ = srv.Serve(l)
			}()
			for range 2 {
				conn, err := net.Dial("tcp", inner.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				_ = conn.SetDeadline(time.Now().Add(time.Minute))
				if test.status == 200 {
					_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
				} // who is turned away need not say anything
				answer, err := io.ReadAll(conn)
				if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 "+map[int]string{200: "200", 403: "403"}[test.status]) {
					t.Errorf("%q, %v", answer, err)
				}
				_ = conn.Close()
			}
			_ = srv.Close()
			<-done
			if refused := test.status == 403; refused != (served == 0) || refused != (strings.Count(log.String(), "uid 4711") == 1) {
				t.Errorf("%d requests were served, the log has %q", served, log.String())
			}
		})
	}
}
