package peeruid

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// asClient makes the test binary a client that connects and waits.
const asClient = "PEERUID_TEST_CLIENT"

func TestMain(m *testing.M) {
	address := os.Getenv(asClient)
	if address == "" {
		os.Exit(m.Run())
	}
	network := "tcp"
	if strings.HasPrefix(address, "/") {
		network = "unix"
	}
	if conn, err := net.Dial(network, address); err == nil {
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		_, _ = conn.Read(make([]byte, 1)) // until the test closes it
	}
}

// users are those as whom a client can be started here.
func users() []int {
	if os.Geteuid() == 0 {
		return []int{0, 65534}
	}
	return []int{os.Geteuid()}
}

func TestOf(t *testing.T) {
	folder, err := os.MkdirTemp("", "peeruid-") // every user may enter it
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	socket := folder + "/s"
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", socket} {
		network := "tcp"
		if address == socket {
			network = "unix"
		}
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if err := errors.Join(os.Chmod(folder, 0o755), chmodSocket(address)); err != nil {
			t.Fatal(err)
		}
		for _, user := range users() {
			// A copy in a folder that every user may enter.
			cmd := exec.Command(reachable(t))
			cmd.Env = []string{asClient + "=" + l.Addr().String()}
			cmd.Dir = "/"
			if os.Geteuid() == 0 {
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}}
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			conn, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			if uid, known := Of(conn); !known || uid != user {
				t.Errorf("%s: the client of user %d is of %d, %v", address, user, uid, known)
			}
			if network == "unix" {
				_ = conn.Close()
				_ = cmd.Wait()
				continue
			}
			if uid, known := search(conn.RemoteAddr().(*net.TCPAddr), conn.LocalAddr().(*net.TCPAddr)); !known || uid != user {
				t.Errorf("%s: in the table the client of user %d is of %d, %v", address, user, uid, known)
			}
			_ = conn.Close()
			_ = cmd.Wait()
		}
	}
}

// chmodSocket lets every user connect.
func chmodSocket(address string) error {
	if !strings.HasPrefix(address, "/") {
		return nil
	}
	return os.Chmod(address, 0o777)
}

func reachable(t *testing.T) string {
	t.Helper()
	program, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.CreateTemp("", "peeruid-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(file.Name()) })
	if _, err := file.Write(program); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(file.Chmod(0o755), file.Close()); err != nil {
		t.Fatal(err)
	}
	return file.Name()
}

func TestWhoIsNotKnown(t *testing.T) {
	gone := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}
	if uid, known := ownerOf(gone, gone); known {
		t.Errorf("a socket that is not there is of user %d", uid)
	}
	if _, err := ask(gone, gone); !errors.Is(err, unix.ENOENT) {
		t.Errorf("the kernel says %v of a socket that is not there", err)
	}
	for _, answer := range []string{"", strings.Repeat("\x00", 20), strings.Repeat("\xff", 200)} {
		if _, err := read([]byte(answer)); err == nil {
			t.Errorf("an answer of %d bytes is read", len(answer))
		}
	}
	a, b := net.Pipe()
	defer b.Close()
	if _, known := Of(a); known {
		t.Error("a pipe has a user")
	}
	_ = a.Close()
}

func BenchmarkOf(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	conn, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	for b.Loop() {
		if uid, _ := Of(conn); uid != os.Geteuid() {
			b.Fatal(strconv.Itoa(uid))
		}
	}
}
