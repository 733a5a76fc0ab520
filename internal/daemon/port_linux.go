package daemon

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// PortOwner finds the process that listens on a TCP port, as far as this user
// may see; 0 if it cannot be told.
func PortOwner(port int) int {
	socket := ""
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		if inode := listeningInode(table, port); inode != "" {
			socket = "socket:[" + inode + "]"
			break
		}
	}
	if socket == "" {
		return 0
	}
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == socket {
			pid, _ := strconv.Atoi(strings.Split(link, "/")[2])
			return pid
		}
	}
	return 0
}

// listeningInode finds the socket in a table of the kernel (proc(5)): the
// local address in the second column, state 0A in the fourth, the inode in the
// tenth.
func listeningInode(table string, port int) string {
	f, err := os.Open(table)
	if err != nil {
		return ""
	}
	defer f.Close()
	suffix := fmt.Sprintf(":%04X", port)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		columns := strings.Fields(lines.Text())
		if len(columns) > 9 && columns[3] == "0A" && strings.HasSuffix(columns[1], suffix) {
			return columns[9]
		}
	}
	return ""
}
