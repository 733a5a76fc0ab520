package usage

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// tick is the unit of CPU times in /proc, on every architecture.
const tick = 10 * time.Millisecond

// processes lists what runs on this machine, as far as we may see it.
func processes() map[int]process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	names, err := dir.Readdirnames(-1)
	dir.Close()
	if err != nil {
		return nil
	}
	page := int64(os.Getpagesize())
	all := make(map[int]process, len(names))
	var buf [1 << 10]byte // more than the line can have
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := parse(readStat("/proc/"+name+"/stat", buf[:])); ok {
			p.Resident *= page
			all[pid] = p
		}
	}
	return all
}

// readStat reads a file of one line; nothing where its process has ended. There are as
// many as processes, and os.ReadFile would ask the system twice as much for each.
func readStat(path string, buf []byte) []byte {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	n, err := unix.Read(fd, buf)
	_ = unix.Close(fd)
	if err != nil {
		return nil
	}
	return buf[:n]
}

// parse reads one line of /proc/PID/stat; its memory is in pages. The name in
// parentheses may contain anything. Behind it come the state, the parent, ..., as the
// 14th to 17th field of the line the times, and as the 24th the pages.
func parse(stat []byte) (p process, ok bool) {
	var fields [24 + 1][]byte
	n := 3
	for field := range bytes.FieldsSeq(stat[bytes.LastIndexByte(stat, ')')+1:]) {
		if n == len(fields) {
			break
		}
		fields[n] = field
		n++
	}
	if n < len(fields) {
		return process{}, false
	}
	number := func(field int) int64 {
		v, _ := strconv.ParseInt(string(fields[field]), 10, 64)
		return v
	}
	p.parent, p.Processes, p.Resident = int(number(4)), 1, number(24)
	for field := 14; field <= 17; field++ {
		p.CPU += time.Duration(number(field)) * tick
	}
	return p, true
}
