//go:build unix && !linux

package stdio

// procGroupLives reports whether a group that the kernel still knows has more
// than zombies in it. Orphans are reaped immediately here.
func procGroupLives(int) bool { return true }
