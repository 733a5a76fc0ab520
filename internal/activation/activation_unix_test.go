//go:build unix

package activation

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// asService makes the test binary the process that a service manager starts.
const asService = "ACTIVATION_TEST_SERVICE"

func TestMain(m *testing.M) {
	if os.Getenv(asService) == "" {
		os.Exit(m.Run())
	}
	if os.Getenv("LISTEN_PID") == "self" {
		_ = os.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid()))
	}
	l, err := Listener()
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	for _, name := range variables {
		if _, have := os.LookupEnv(name); have {
			fmt.Println("left:", name)
		}
	}
	if l == nil {
		fmt.Println("none")
		return
	}
	fmt.Println("listens on", l.Addr().Network())
	conn, err := l.Accept()
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _ = io.WriteString(conn, "hello")
	_ = conn.Close()
	_ = l.Close()
}

func service(t *testing.T, file *os.File, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), asService+"=1"), env...)
	cmd.Stderr = os.Stderr
	if file != nil {
		cmd.ExtraFiles = []*os.File{file}
	}
	return cmd
}

// A client that connects while no process serves waits, and is served by the
// process that comes.
func TestConnectionsWaitForTheNextProcess(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			address := "127.0.0.1:0"
			if network == "unix" {
				address = t.TempDir() + "/s"
			}
			l, err := net.Listen(network, address)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			file, err := l.(interface{ File() (*os.File, error) }).File()
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			for range 2 { // and again after a restart
				conn, err := net.Dial(network, l.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				_ = conn.SetDeadline(time.Now().Add(time.Minute))
				out, err := service(t, file, "LISTEN_PID=self", "LISTEN_FDS=1", "LISTEN_FDNAMES=mcp").Output()
				if want := "listens on " + network + "\n"; err != nil || string(out) != want {
					t.Fatalf("%q, %v, want %q", out, err, want)
				}
				if said, err := io.ReadAll(conn); string(said) != "hello" {
					t.Errorf("the client that waited got %q, %v", said, err)
				}
				_ = conn.Close()
			}
		})
	}
}

func TestNoSocket(t *testing.T) {
	file, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for name, test := range map[string]struct {
		env  []string
		want string
	}{
		"nothing":             {nil, "none"},
		"of another process":  {[]string{"LISTEN_PID=1", "LISTEN_FDS=1"}, "none"},
		"none of them":        {[]string{"LISTEN_PID=self", "LISTEN_FDS=0"}, "none"},
		"two":                 {[]string{"LISTEN_PID=self", "LISTEN_FDS=2"}, "error: take over a socket: the service manager hands 2 sockets over"},
		"what is no socket":   {[]string{"LISTEN_PID=self", "LISTEN_FDS=1"}, "error: take over a socket: what the service manager hands over is no socket"},
		"a count that is not": {[]string{"LISTEN_PID=self", "LISTEN_FDS=x"}, "error:"},
	} {
		out, err := service(t, file, test.env...).Output()
		if err != nil || !strings.HasPrefix(string(out), test.want) {
			t.Errorf("%s: %q, %v, want %q", name, out, err, test.want)
		}
	}
}
