package usage

import (
	"bytes"
	"os"
	"strconv"
	"time"
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
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // it has ended
		}
		if p, ok := parse(stat); ok {
			p.Resident *= page
			all[pid] = p
		}
	}
	return all
}

// parse reads one line of /proc/PID/stat; its memory is in pages. The name in
// parentheses may contain anything. Behind it come the state, the parent, ..., as the
// 14th to 17th field of the line the times, and as the 24th the pages.
func parse(stat []byte) (p process, ok bool) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 22 {
		return process{}, false
	}
	number := func(field int) int64 {
		n, _ := strconv.ParseInt(string(fields[field-3]), 10, 64)
		return n
	}
	p.parent, p.Processes, p.Resident = int(number(4)), 1, number(24)
	for field := 14; field <= 17; field++ {
		p.CPU += time.Duration(number(field)) * tick
	}
	return p, true
}
