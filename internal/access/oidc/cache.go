package oidc

import (
	"crypto/sha256"
	"encoding/base64"
	"sync"
	"time"
)

// maxCached is how many tokens each half of a cache holds.
const maxCached = 5000

// A cache has the tokens that were verified lately, by their hashes: the newer half,
// and the one before, which goes when the newer one is full.
type cache struct {
	mu         sync.RWMutex // guards the rest; nothing waits under it
	newer, old map[[sha256.Size]byte]*verified
}

// get returns what is still good. An expired token is good no more, whenever it was
// verified.
func (c *cache) get(sum [sha256.Size]byte, now time.Time) (*verified, bool) {
	c.mu.RLock()
	t := c.newer[sum]
	if t == nil {
		t = c.old[sum]
	}
	c.mu.RUnlock()
	return t, t != nil && now.Before(t.until) && !t.who.Expired(now)
}

func (c *cache) put(sum [sha256.Size]byte, t *verified) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.newer == nil || len(c.newer) >= maxCached {
		c.newer, c.old = map[[sha256.Size]byte]*verified{}, c.newer
	}
	c.newer[sum] = t
}

func base64url(text string) ([]byte, error) { return base64.RawURLEncoding.DecodeString(text) }
