//go:build !linux

package systest

// processChild is a server for tests that look into /proc.
func processChild() {}
