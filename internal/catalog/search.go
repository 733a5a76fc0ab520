package catalog

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
)

// A Finder ranks the listed tools of one table by BM25 over their names,
// descriptions, and the names and descriptions of their parameters. It is not
// changed once made.
type Finder struct {
	names    []string // by position in the list
	lengths  []float64
	mean     float64
	postings map[string][]posting
}

// A posting is how much a term weighs in one tool.
type posting struct {
	tool   int
	weight float64
}

// What a term counts, by where it stands, and the constants of BM25.
const (
	nameWeight  = 3
	paramWeight = 2
	textWeight  = 1

	saturation = 1.2
	lengthPart = 0.75
)

// NewFinder indexes the tools that the table lists.
func NewFinder(t *Table) *Finder {
	f := &Finder{postings: map[string][]posting{}}
	for i, raw := range t.texts(Tools) {
		o, _ := parseObject(raw)
		weights := map[string]float64{}
		name := text(o.get("name"))
		count(weights, name, nameWeight)
		count(weights, text(o.get("title")), nameWeight)
		count(weights, text(o.get("description")), textWeight)
		parameters(weights, o.get("inputSchema"))
		length := 0.0
		for term, w := range weights {
			f.postings[term] = append(f.postings[term], posting{i, w})
			length += w
		}
		f.names = append(f.names, name)
		f.lengths = append(f.lengths, length)
		f.mean += length
	}
	f.mean = max(f.mean/float64(max(len(f.names), 1)), 1)
	return f
}

func parameters(weights map[string]float64, inputSchema []byte) {
	schema, ok := parseObject(inputSchema)
	if !ok {
		return
	}
	properties, ok := parseObject(schema.get("properties"))
	if !ok {
		return
	}
	for _, p := range properties.members {
		count(weights, p.Name, paramWeight)
		if o, ok := parseObject(p.Value); ok {
			count(weights, text(o.get("description")), textWeight)
		}
	}
}

func count(weights map[string]float64, s string, w float64) {
	for _, term := range terms(s) {
		weights[term] += w
	}
}

// Find returns the positions of the best tools for a query, the best first, at
// most limit. A tool whose name is the query comes before all others; equals
// are in the order of the list.
func (f *Finder) Find(query string, limit int) []int {
	scores := map[int]float64{}
	words := terms(query)
	slices.Sort(words)
	n := float64(len(f.names))
	for _, term := range slices.Compact(words) {
		found := f.postings[term]
		rare := math.Log(1 + (n-float64(len(found))+0.5)/(float64(len(found))+0.5))
		for _, p := range found {
			norm := saturation * (1 - lengthPart + lengthPart*f.lengths[p.tool]/f.mean)
			scores[p.tool] += rare * p.weight * (saturation + 1) / (p.weight + norm)
		}
	}
	if i := slices.Index(f.names, strings.TrimSpace(query)); i >= 0 {
		scores[i] = math.Inf(1)
	}
	best := make([]int, 0, len(scores))
	for i := range scores {
		best = append(best, i)
	}
	slices.SortFunc(best, func(a, b int) int {
		return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(a, b))
	})
	return best[:min(len(best), max(limit, 0))]
}

// terms are the words of a text in lower case: names are cut at case changes
// and punctuation, a plural s is dropped, and scripts without spaces give a
// term for each character.
func terms(s string) []string {
	var all []string
	var word []rune
	end := func() {
		if n := len(word); n > 3 && word[n-1] == 's' && word[n-2] != 's' {
			word = word[:n-1]
		}
		if len(word) > 0 {
			all = append(all, string(word))
		}
		word = word[:0]
	}
	lower := false
	for _, r := range s {
		switch {
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul):
			end()
			all = append(all, string(r))
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end()
		default:
			if lower && unicode.IsUpper(r) {
				end()
			}
			word = append(word, unicode.ToLower(r))
		}
		lower = unicode.IsLower(r)
	}
	end()
	return all
}
