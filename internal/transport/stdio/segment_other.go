//go:build !linux

package stdio

func newSegment() *segment { return &segment{bytes: make([]byte, segmentSize)} }
