//go:build !linux

package transport

func newSegment() *segment { return &segment{bytes: make([]byte, segmentSize)} }
