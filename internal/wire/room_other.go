//go:build !linux

package wire

// mapPages does nothing: pages are mapped when they are written to.
func mapPages([]byte) {}
