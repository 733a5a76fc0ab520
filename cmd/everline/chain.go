package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"slices"
	"strings"
)

// chainVar is what the servers of an everline inherit from it: which
// configurations the everlines above them serve.
const chainVar = "EVERLINE_CHAIN"

// joinChain adds files to the chain of this process. It is false where they are
// in it: whoever served them again would start itself as a server without end.
func joinChain(files []string) bool {
	if slices.ContainsFunc(files, readOnce) {
		return true // the same path, and maybe not the same text
	}
	sum := sha256.Sum256([]byte(strings.Join(absolute(files), "\x00")))
	own, above := hex.EncodeToString(sum[:8]), strings.Fields(os.Getenv(chainVar))
	if slices.Contains(above, own) {
		return false
	}
	_ = os.Setenv(chainVar, strings.Join(append(above, own), " ")) // cannot fail with such a name
	return true
}
