// Package typed is about words that people type: which of the known ones was
// meant by a wrong one, and how a name is written behind a command. It reads no
// command line.
package typed

import (
	"strconv"
	"strings"
)

// Nearest returns the word of known that was probably meant by word, or "" if
// none is near: the same word but for case, "_" and "-", or one that is a typing
// mistake or two away.
func Nearest(word string, known []string) string {
	plain := foldWord(word)
	best, distance := "", 1+max(1, len(plain)/4)
	for _, k := range known {
		if d := editDistance(plain, foldWord(k), distance); d < distance {
			best, distance = k, d
		}
	}
	return best
}

// Meant is the suggestion at the end of a message; "" if there is none.
func Meant(wrong string, known []string) string {
	if near := Nearest(wrong, known); near != "" {
		return " (did you mean " + strconv.Quote(near) + "?)"
	}
	return ""
}

var wordFolder = strings.NewReplacer("_", "", "-", "")

func foldWord(s string) string { return wordFolder.Replace(strings.ToLower(s)) }

// editDistance counts insertions, deletions, replacements and swaps of
// neighbours between a and b; it gives up with limit once it cannot be less.
func editDistance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}
