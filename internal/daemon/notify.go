package daemon

import (
	"context"
	"net"
	"os"
	"time"
)

// notifyLimit bounds a word to the service manager, which nothing waits for.
const notifyLimit = time.Second

// notifySystemd reports to the service manager that started this process how it
// does, by the protocol of sd_notify(3): READY=1, STOPPING=1. Without such a
// manager it does nothing, and a manager that does not listen loses nothing.
func notifySystemd(state string) {
	address := os.Getenv("NOTIFY_SOCKET")
	if address == "" || address[0] != '/' && address[0] != '@' {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), notifyLimit)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unixgram", address) // net takes a leading @ for the abstract namespace
	if err != nil {
		return
	}
	defer conn.Close()
	if conn.SetDeadline(time.Now().Add(notifyLimit)) == nil {
		_, _ = conn.Write([]byte(state)) // the manager notices a loss by its own timeout
	}
}
