package redact

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/everline/everline/internal/conf/expand"
	"github.com/everline/everline/internal/conf/tree"
)

// forms gives the ways in which programs write a value: line by line, escaped,
// and in base64, alone or behind something else.
func forms(v string) []string {
	all := asWritten(v)
	for _, f := range []string{url.QueryEscape(v), url.PathEscape(v), expand.PercentEncoded(v, expand.Unreserved), expand.PercentEncoded(v, expand.InPath), expand.PercentEncoded(v, expand.InQuery)} {
		all = append(all, f, escapes16.ReplaceAllStringFunc(f, strings.ToLower))
	}
	goText := strconv.Quote(v)
	all = append(all, goText[1:len(goText)-1])
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if len(v) >= shortestSecret {
			all = append(all, enc.EncodeToString([]byte(v)))
		}
		for skip := range 3 { // what of the code does not depend on what is around
			code := enc.EncodeToString(append(make([]byte, skip), v...))
			if from, to := (8*skip+5)/6, 8*(skip+len(v))/6; to-from >= 10 {
				all = append(all, code[from:to])
			}
		}
	}
	return slices.DeleteFunc(all, func(f string) bool { return len(f) < shortestSecret })
}

var escapes16 = regexp.MustCompile(`%[0-9A-F]{2}`)

// asWritten gives the forms that a value may have in a file: plain, line by
// line, and escaped as programs do it.
func asWritten(v string) []string {
	forms := append(strings.Split(v, "\n"), tree.Quoted(v))
	if text, err := json.Marshal(v); err == nil {
		forms = append(forms, string(text))
	}
	var all []string
	for _, form := range forms {
		form = strings.Trim(form, "\" \t\r")
		if len(form) >= shortestSecret && !slices.Contains(all, form) {
			all = append(all, form)
		}
	}
	return all
}

// Credentials gives a value, and what stands in it behind a word like "Bearer".
func Credentials(v string) []string {
	if _, alone, ok := strings.Cut(v, " "); ok {
		return []string{v, alone}
	}
	return []string{v}
}
