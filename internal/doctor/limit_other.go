//go:build !unix

package doctor

// fileLimit is not known here.
func fileLimit() (n uint64, known bool) { return 0, false }
