package admin

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/owned"
	"github.com/everline/everline/internal/statelock"
)

const (
	socketName = "admin.sock"
	// pathName is the file that holds the socket's path where the state folder
	// is too deep for one.
	pathName = "admin.path"
	// maxSocket is the longest path in bytes that every system takes for a
	// socket.
	maxSocket = 100
)

// A Listener is the admin socket of one state folder, and the lock on it.
type Listener struct {
	net.Listener
	lock   *statelock.Lock
	folder string // the runtime folder made for a short path; "" if none was needed
	record string // the file that names it
}

// Listen makes the socket of a state folder, creating the folder where needed.
// The folder is then ours until Close: a second everline on it is refused with
// kind fault.Conflict. A socket that was left over is replaced. A folder that
// others may use is refused: they could put another socket into it.
func Listen(stateDir string) (*Listener, error) {
	fail := func(err error) error {
		return &fault.Fault{
			Kind: fault.Invalid, Op: "open the state folder " + stateDir, Err: err,
			Remedy: "name another folder with --state-dir",
		}
	}
	if err := owned.MakeFolder(stateDir); err != nil {
		return nil, err
	}
	lock, err := statelock.Take(stateDir, statelock.Socket, "everline")
	if err != nil {
		return nil, err
	}
	l := &Listener{lock: lock, record: filepath.Join(stateDir, pathName)}
	if l.Listener, err = l.open(filepath.Join(stateDir, socketName)); err != nil {
		l.release()
		return nil, fail(err)
	}
	return l, nil
}

// open listens at path, or in a runtime folder of our own where that is too long.
func (l *Listener) open(path string) (net.Listener, error) {
	if err := removeIfThere(l.record); err != nil {
		return nil, err
	}
	if len(path) > maxSocket {
		folder, err := os.MkdirTemp(runtimeDir(), "everline-")
		if err != nil {
			return nil, err
		}
		l.folder = folder
		path = filepath.Join(folder, socketName)
		if err := owned.Write(l.record, []byte(path), 0o600); err != nil {
			return nil, err
		}
	}
	if err := removeIfThere(path); err != nil { // we hold the lock: it is stale
		return nil, err
	}
	var config net.ListenConfig
	socket, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		socket.Close()
		return nil, err
	}
	return socket, nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func runtimeDir() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir
		}
	}
	return os.TempDir()
}

// Close removes the socket and gives the folder back. It is idempotent.
func (l *Listener) Close() error {
	err := l.Listener.Close()
	l.release()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (l *Listener) release() {
	if l.folder != "" {
		_ = errors.Join(os.RemoveAll(l.folder), os.Remove(l.record)) // the next owner makes them again
	}
	l.lock.Release()
}

// socketPath finds the socket of a state folder.
func socketPath(stateDir string) string {
	if data, err := os.ReadFile(filepath.Join(stateDir, pathName)); err == nil {
		return string(data)
	}
	return filepath.Join(stateDir, socketName)
}
