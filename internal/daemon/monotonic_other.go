//go:build !linux

package daemon

func monotonic() string { return "" }
