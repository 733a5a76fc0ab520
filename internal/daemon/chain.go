package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/everline/everline/internal/mcp"
)

// maxEnded is how often a configuration may be in the chain with processes that
// are not seen: where each level hides those above from the next, as containers
// do, this is what ends it.
const maxEnded = 4

// joinChain adds files to the chain of this process. It is false where they are
// in it: an everline that served them again would start itself as a server
// without end.
func joinChain(files []string) bool {
	if slices.ContainsFunc(files, ReadOnce) {
		return true // the same path, and maybe not the same text
	}
	sum := sha256.Sum256([]byte(strings.Join(Absolute(files), "\x00")))
	own, above := hex.EncodeToString(sum[:8]), strings.Fields(os.Getenv(mcp.ChainVar))
	ended := 0
	for _, entry := range above {
		served, server, _ := strings.Cut(entry, ":")
		if served != own {
			continue
		}
		pid, err := strconv.Atoi(server)
		if ended++; ended > maxEnded || err == nil && pid > 0 && pid != os.Getpid() && isAlive(pid) {
			return false
		}
	}
	above = append(above, own+":"+strconv.Itoa(os.Getpid()))
	_ = os.Setenv(mcp.ChainVar, strings.Join(above, " ")) // cannot fail with such a name
	return true
}
