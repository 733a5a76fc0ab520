//go:build unix

package doctor

import "syscall"

// fileLimit is how many files a process may have open.
func fileLimit() (n uint64, known bool) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, false
	}
	return uint64(limit.Cur), true
}
