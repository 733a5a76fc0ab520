//go:build !linux

package stdio

// procNoCore: a process that was started without a shim keeps our limit here.
func procNoCore(int) {}
