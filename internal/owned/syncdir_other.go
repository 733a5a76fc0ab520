//go:build !unix

package owned

// syncDir does nothing: a folder cannot be flushed here, and the file system
// orders renames itself.
func syncDir(string) error { return nil }
