package expand

import "strings"

// A kept reference stands in a text between these two characters, which are
// for private use, until the text is written out.
const (
	KeepOpen  = "\ue000"
	keepClose = "\ue001"
)

// kept writes kept references out.
var kept = strings.NewReplacer(KeepOpen, "${", keepClose, "}")

// Keep is the reference as it stands in a text until then.
func Keep(ref string) string { return KeepOpen + ref + keepClose }

// EscapeReferences writes a text so that the reader finds no reference in it but
// those that are kept.
func EscapeReferences(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if s[i] == '$' && i+1 < len(s) && (s[i+1] == '$' || s[i+1] == '{') {
			b.WriteByte('$')
		}
		b.WriteByte(s[i])
	}
	return kept.Replace(b.String())
}
