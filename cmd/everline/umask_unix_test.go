//go:build unix

package main

import "syscall"

// Stories make configuration files that their group must not be able to write.
func init() { syscall.Umask(0o022) }
