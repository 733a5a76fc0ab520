package prompt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/everline/everline/internal/show"
)

// A form is what a server asks for during a call: the params of
// elicitation/create (2025-11-25 client/elicitation, "Requested Schema").
type form struct {
	Message string     `json:"message"`
	Schema  formSchema `json:"requestedSchema"`
}

type formSchema struct {
	Properties fields   `json:"properties"`
	Required   []string `json:"required"`
}

// fields are the fields of a form in the order of the schema.
type fields []field

// A field is one primitive value, or some of a list of texts.
type field struct {
	name string

	Type        string          `json:"type"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Default     json.RawMessage `json:"default"`
	Format      string          `json:"format"`
	Minimum     json.Number     `json:"minimum"`
	Maximum     json.Number     `json:"maximum"`
	MinLength   *int            `json:"minLength"`
	MaxLength   *int            `json:"maxLength"`
	MinItems    *int            `json:"minItems"`
	MaxItems    *int            `json:"maxItems"`
	choices
	Items choices `json:"items"`
}

// choices are the texts that are allowed, in one of the ways of the protocol.
type choices struct {
	Enum      []string `json:"enum"`
	EnumNames []string `json:"enumNames"`
	OneOf     []choice `json:"oneOf"`
	AnyOf     []choice `json:"anyOf"`
}

type choice struct {
	Const string `json:"const"`
	Title string `json:"title"`
}

// UnmarshalJSON reads an object of schemas, and keeps its order.
func (fs *fields) UnmarshalJSON(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return errors.Join(errors.New("the properties are no object"), err)
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		f := field{name: fmt.Sprint(name)}
		if err := dec.Decode(&f); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		*fs = append(*fs, f)
	}
	return nil
}

// all are the allowed texts with what people read instead.
func (c choices) all() []choice {
	list := slices.Concat(c.OneOf, c.AnyOf)
	for i, text := range c.Enum {
		title := ""
		if i < len(c.EnumNames) {
			title = c.EnumNames[i]
		}
		list = append(list, choice{text, title})
	}
	return list
}

// find reads an allowed text, its title, or its number in the list.
func (c choices) find(line string) (text string, ok bool) {
	all := c.all()
	for _, o := range all {
		if o.Const == line || o.Title != "" && strings.EqualFold(o.Title, line) {
			return o.Const, true
		}
	}
	if n, err := strconv.Atoi(line); err == nil && 1 <= n && n <= len(all) {
		return all[n-1].Const, true
	}
	return "", false
}

// The answers to a form as a whole.
const (
	actionAccept  = "accept"
	actionDecline = "decline"
	actionCancel  = "cancel"
)

// Fill has the user fill in a form, and returns the result of
// elicitation/create. Ctrl-C and Ctrl-D cancel.
func (q *Asker) Fill(server string, params json.RawMessage) json.RawMessage {
	var f form
	if err := json.Unmarshal(params, &f); err != nil {
		fmt.Fprintf(q.out, "%s asks for input that cannot be read: %s\n", show.Line(server), show.Line(err.Error()))
		return formResult(actionCancel, nil)
	}
	restore, err := q.raw()
	if err != nil {
		return formResult(actionCancel, nil)
	}
	defer restore()
	fmt.Fprintf(q.out, "%s asks: %s\r\n", show.Line(server), strings.ReplaceAll(show.Lines(f.Message), "\n", "\r\n"))
	content := []byte{'{'}
	for _, field := range f.Schema.Properties {
		value, err := q.fillField(field, slices.Contains(f.Schema.Required, field.name))
		if err != nil {
			fmt.Fprint(q.out, "\r\n")
			return formResult(actionCancel, nil)
		}
		if value == nil {
			continue
		}
		if len(content) > 1 {
			content = append(content, ',')
		}
		name, _ := json.Marshal(field.name) // a text can be encoded
		content = append(append(append(content, name...), ':'), value...)
	}
	action := q.confirm(server)
	return formResult(action, append(content, '}'))
}

func formResult(action string, content []byte) json.RawMessage {
	if action != actionAccept {
		return json.RawMessage(`{"action":"` + action + `"}`)
	}
	return slices.Concat([]byte(`{"action":"accept","content":`), content, []byte{'}'})
}

// confirm asks what becomes of the form. An empty line sends it.
func (q *Asker) confirm(server string) string {
	q.lines.SetPrompt("send this to " + show.Line(server) + "? (yes, no: decline, cancel; default yes): ")
	for {
		line, err := q.lines.ReadLine()
		if err != nil {
			fmt.Fprint(q.out, "\r\n")
			return actionCancel
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "", "y", "yes":
			return actionAccept
		case "n", "no", actionDecline:
			return actionDecline
		case "c", actionCancel:
			return actionCancel
		}
	}
}

// fillField asks for one field until its value is right; nil for one that is
// left out.
func (q *Asker) fillField(f field, required bool) (json.RawMessage, error) {
	q.lines.SetPrompt(f.prompt(required))
	for {
		line, err := q.lines.ReadLine()
		if err != nil {
			return nil, err
		}
		line = strings.TrimSpace(line)
		switch {
		case line == "" && f.Default != nil:
			return f.Default, nil
		case line == "" && !required:
			return nil, nil
		case line == "" && f.Type != "string" || line == "" && len(f.all()) > 0:
			fmt.Fprint(q.out, "a value is required\r\n")
			continue
		}
		value, problem := f.read(line)
		if problem == "" {
			return value, nil
		}
		fmt.Fprintf(q.out, "%s\r\n", show.Line(problem))
	}
}

// prompt is what the user reads: "age (Your age; a whole number, 1 to 120;
// default 30): ".
func (f field) prompt(required bool) string {
	notes := []string{f.Title, f.Description, f.kind()}
	if f.Default != nil {
		notes = append(notes, "default "+string(f.Default))
	} else if !required {
		notes = append(notes, "may be empty")
	}
	notes = slices.DeleteFunc(notes, func(n string) bool { return n == "" })
	return fmt.Sprintf("  %s (%s): ", show.Line(f.name), show.Line(strings.Join(notes, "; ")))
}

// kind says what values are right.
func (f field) kind() string {
	list := f.choices
	if f.Type == "array" {
		list = f.Items
	}
	if all := list.all(); len(all) > 0 {
		var words []string
		for i, c := range all {
			word := c.Const
			if c.Title != "" && c.Title != c.Const {
				word += " " + c.Title
			}
			words = append(words, strconv.Itoa(i+1)+": "+word)
		}
		if f.Type == "array" {
			return "some of " + strings.Join(words, ", ") + ", with commas between"
		}
		return "one of " + strings.Join(words, ", ")
	}
	switch f.Type {
	case "boolean":
		return "yes or no"
	case "integer":
		return "a whole number" + f.bounds()
	case "number":
		return "a number" + f.bounds()
	case "array":
		return "texts, with commas between"
	default:
		return f.Format
	}
}

func (f field) bounds() string {
	switch {
	case f.Minimum != "" && f.Maximum != "":
		return ", " + string(f.Minimum) + " to " + string(f.Maximum)
	case f.Minimum != "":
		return ", " + string(f.Minimum) + " or more"
	case f.Maximum != "":
		return ", " + string(f.Maximum) + " or less"
	default:
		return ""
	}
}

// read turns a line into the field's value, or says what is wrong with it.
func (f field) read(line string) (value json.RawMessage, problem string) {
	switch f.Type {
	case "boolean":
		return readBool(line)
	case "integer", "number":
		return f.readNumber(line)
	case "array":
		return f.readList(line)
	default:
		return f.readText(line)
	}
}

func readBool(line string) (json.RawMessage, string) {
	switch strings.ToLower(line) {
	case "y", "yes", "true":
		return json.RawMessage("true"), ""
	case "n", "no", "false":
		return json.RawMessage("false"), ""
	default:
		return nil, "it must be yes or no"
	}
}

func (f field) readNumber(line string) (json.RawMessage, string) {
	n, ok := new(big.Rat).SetString(line)
	switch {
	case !ok || !json.Valid([]byte(line)) || len(line) > 100:
		return nil, "it must be " + f.kind()
	case f.Type == "integer" && !n.IsInt():
		return nil, "it must be " + f.kind()
	}
	low, hasLow := new(big.Rat).SetString(string(f.Minimum))
	high, hasHigh := new(big.Rat).SetString(string(f.Maximum))
	if hasLow && n.Cmp(low) < 0 || hasHigh && n.Cmp(high) > 0 {
		return nil, "it must be " + f.kind()
	}
	return json.RawMessage(line), ""
}

func (f field) readText(line string) (json.RawMessage, string) {
	if len(f.all()) > 0 {
		text, ok := f.find(line)
		if !ok {
			return nil, "it must be " + f.kind()
		}
		return jsonText(text), ""
	}
	n := utf8.RuneCountInString(line)
	switch {
	case f.MinLength != nil && n < *f.MinLength:
		return nil, fmt.Sprintf("it must have %d characters or more", *f.MinLength)
	case f.MaxLength != nil && n > *f.MaxLength:
		return nil, fmt.Sprintf("it must have %d characters or less", *f.MaxLength)
	case !hasFormat(f.Format, line):
		return nil, "it must be " + formats[f.Format]
	}
	return jsonText(line), ""
}

// formats are the formats of texts, with an example of those that have a form
// of their own.
var formats = map[string]string{
	"email":     "an email address",
	"uri":       "a URI, such as https://example.com",
	"date":      "a date, such as 2026-07-28",
	"date-time": "a date and time, such as 2026-07-28T12:00:00Z",
}

func hasFormat(format, text string) bool {
	var err error
	switch format {
	case "email":
		var a *mail.Address
		if a, err = mail.ParseAddress(text); err == nil && a.Address != text {
			return false
		}
	case "uri":
		var u *url.URL
		if u, err = url.Parse(text); err == nil && u.Scheme == "" {
			return false
		}
	case "date":
		_, err = time.Parse(time.DateOnly, text)
	case "date-time":
		_, err = time.Parse(time.RFC3339, text)
	}
	return err == nil
}

func (f field) readList(line string) (json.RawMessage, string) {
	var texts []string
	for word := range strings.SplitSeq(line, ",") {
		word = strings.TrimSpace(word)
		if len(f.Items.all()) > 0 {
			var ok bool
			if word, ok = f.Items.find(word); !ok {
				return nil, "it must be " + f.kind()
			}
		}
		if word != "" && !slices.Contains(texts, word) {
			texts = append(texts, word)
		}
	}
	switch n := len(texts); {
	case f.MinItems != nil && n < *f.MinItems:
		return nil, fmt.Sprintf("it must be %d or more", *f.MinItems)
	case f.MaxItems != nil && n > *f.MaxItems:
		return nil, fmt.Sprintf("it must be %d or less", *f.MaxItems)
	}
	list, _ := json.Marshal(append([]string{}, texts...)) // texts can be encoded
	return list, ""
}

func jsonText(text string) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // a text can be encoded
	return bytes.TrimSpace(b.Bytes())
}
