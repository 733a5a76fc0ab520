package mcp

import "slices"

// Protocol versions.
const (
	ModernVersion = "2026-07-28"
	LatestLegacy  = "2025-11-25"
	BatchVersion  = "2025-03-26" // the one revision whose HTTP transport takes batches
	FirstVersion  = "2024-11-05"
)

// The versions of each era that everline speaks, the newest first. Legacy ones
// are agreed on by initialize, modern ones are in each request.
var (
	ModernVersions = []string{ModernVersion}
	LegacyVersions = []string{LatestLegacy, "2025-06-18", BatchVersion, FirstVersion}
	Versions       = slices.Concat(ModernVersions, LegacyVersions)
)

// Newest is the first of ours that is among theirs; "" if none is.
func Newest(ours, theirs []string) string {
	for _, v := range ours {
		if slices.Contains(theirs, v) {
			return v
		}
	}
	return ""
}
