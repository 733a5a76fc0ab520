package stdio

import "sync"

// segmentSize is how much of a long line is kept in one piece while it comes
// in: a large page of most systems.
const segmentSize = 2 << 20

// A segment is such a piece. Its bytes are valid for as long as the segment
// itself is held, which is more than a slice of them.
type segment struct{ bytes []byte }

// segments are pieces that are not in use. The collector empties the pool, so
// that what a large message needed is given back some time after it.
var segments = sync.Pool{New: func() any { return newSegment() }}

func takeSegment() *segment { return segments.Get().(*segment) }

func (s *segment) give() { segments.Put(s) }
