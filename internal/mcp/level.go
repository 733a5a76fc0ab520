package mcp

import "github.com/everline/everline/internal/wire"

// Levels are the log levels (RFC 5424), lowest first, with "" for none.
var Levels = []string{"", "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// LevelRank is the index in Levels of a raw log level, 0 if it is none.
func LevelRank(raw []byte) int {
	name, _ := wire.Text(raw)
	for i, level := range Levels[1:] {
		if level == name {
			return i + 1
		}
	}
	return 0
}
