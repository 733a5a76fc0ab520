package mcp

import (
	"crypto/sha256"
	"encoding/hex"
)

// Digest names a session to those who may see it, and not use it; "" for none.
func Digest(session string) string {
	if session == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(session))
	return hex.EncodeToString(sum[:8])
}
