//go:build !linux

package sandbox

// Supported is nothing: there is no Landlock here.
func Supported() Support { return Support{} }
