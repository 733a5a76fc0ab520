package owned

import "syscall"

// readOnly tells whether a path is on a file system that nobody may write, such
// as the configuration that is mounted into a container.
func readOnly(path string) bool {
	var st syscall.Statfs_t
	const flagReadOnly = 1 // ST_RDONLY
	return syscall.Statfs(path, &st) == nil && st.Flags&flagReadOnly != 0
}
