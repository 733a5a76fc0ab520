package edit

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/tailscale/hujson"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/conf/clients"
	"github.com/everline/everline/internal/conf/tree"
)

// SetServer returns the text of a file with one server put into it, or
// replaced in it. Everything else stays as it is, comments and order included:
// the result is read again, and where anything else has changed, or the text
// is written in a way that cannot be edited, nothing is returned but an error
// of kind fault.Invalid. An empty text is a file that is new.
func SetServer(format, file string, data []byte, name string, e tree.Entry) ([]byte, error) {
	return edit(format, file, data, name, func(w editor, in []string) ([]byte, error) { return w.set(in, name, e) })
}

// RemoveServer returns the text of a file without one server; the same promise
// as SetServer. A server that is not there is an error of kind fault.NotFound.
func RemoveServer(format, file string, data []byte, name string) ([]byte, error) {
	root, f := tree.Parse(file, data)
	if f != nil {
		return nil, f
	}
	if root.Descend(clients.ServersPath(format, root)).Get(name) == nil {
		return nil, &fault.Fault{Kind: fault.NotFound, Op: "remove a server", Err: fmt.Errorf("%s has no server %q", file, name), Outcome: fault.NotSent}
	}
	return edit(format, file, data, name, func(w editor, in []string) ([]byte, error) { return w.remove(in, name) })
}

// HasServer tells whether the text has a server of this name.
func HasServer(format, file string, data []byte, name string) bool {
	root, err := tree.Parse(file, data)
	return err == nil && root.Descend(clients.ServersPath(format, root)).Get(name) != nil
}

// An editor changes the text of one syntax.
type editor interface {
	set(in []string, name string, e tree.Entry) ([]byte, error)
	remove(in []string, name string) ([]byte, error)
}

// edit gives back the text as it is where the edit would change no meaning.
func edit(format, file string, was []byte, name string, change func(editor, []string) ([]byte, error)) ([]byte, error) {
	data, bom := cutBOM(was)
	data, crlf := cutCR(data)
	if len(bytes.TrimSpace(data)) == 0 && tree.SyntaxOf(file) == tree.JSON {
		data = []byte("{\n}\n")
	}
	before, f := tree.Parse(file, data)
	if f != nil {
		return nil, f
	}
	if before.Kind == tree.Null {
		before = &tree.Node{Kind: tree.Object}
	}
	in := clients.ServersPath(format, before)
	byHand := func(err error) error {
		return &fault.Fault{
			Kind: fault.Invalid, Op: "edit " + file, Outcome: fault.NotSent, Err: err,
			Remedy: "edit the file by hand; it is written in a way that cannot be changed safely",
		}
	}
	text, err := change(editorOf(file, data), in)
	if err != nil {
		return nil, byHand(err)
	}
	after, f := tree.Parse(file, text)
	if f != nil {
		return nil, byHand(f)
	}
	if !sameButFor(before, after, in, name) {
		return nil, byHand(errors.New("the edit would have changed more than the server " + name))
	}
	if old, now := before.Descend(in).Get(name), after.Descend(in).Get(name); old != nil && now != nil && old.Same(now) {
		return was, nil
	}
	if crlf {
		text = bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n"))
	}
	return append(bom, text...), nil
}

func editorOf(file string, data []byte) editor {
	switch tree.SyntaxOf(file) {
	case tree.YAML:
		return yamlEditor{string(data)}
	case tree.TOML:
		return tomlEditor{string(data)}
	default:
		return jsonEditor{data}
	}
}

// cutCR takes the carriage returns out of a text that has one before each line end.
func cutCR(data []byte) (text []byte, crlf bool) {
	pairs := bytes.Count(data, []byte("\r\n"))
	if pairs == 0 || pairs != bytes.Count(data, []byte("\n")) || pairs != bytes.Count(data, []byte("\r")) {
		return data, false
	}
	return bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")), true
}

func cutBOM(data []byte) (text, bom []byte) {
	const mark = "\xef\xbb\xbf"
	if rest, ok := bytes.CutPrefix(data, []byte(mark)); ok {
		return rest, []byte(mark)
	}
	return data, nil
}

// sameButFor compares two trees by meaning, but for one member of the object
// at path, and but for the objects on the way there being made.
func sameButFor(a, b *tree.Node, path []string, name string) bool {
	if len(path) == 0 {
		return tree.SameFields(without(a, name), without(b, name))
	}
	empty := &tree.Node{Kind: tree.Object}
	inA, inB := a.Given(path[0]), b.Given(path[0])
	if inA == nil {
		inA = empty
	}
	if inB == nil {
		inB = empty
	}
	if len(b.Fields)-len(without(b, path[0])) > 1 {
		return false // a duplicate key
	}
	return tree.SameFields(without(a, path[0]), without(b, path[0])) && sameButFor(inA, inB, path[1:], name)
}

func without(n *tree.Node, name string) []tree.Field {
	var kept []tree.Field
	for _, f := range n.Fields {
		if f.Name != name {
			kept = append(kept, f)
		}
	}
	return kept
}

type jsonEditor struct{ data []byte }

// set replaces the value of the member, or inserts it in the innermost object of
// the path that is there.
func (w jsonEditor) set(in []string, name string, e tree.Entry) ([]byte, error) {
	root, err := tree.ParseHuJSON(w.data)
	if err != nil {
		return nil, err
	}
	at, path := &root, append(in[:len(in):len(in)], name)
	for {
		object, ok := at.Value.(*hujson.Object)
		if !ok {
			return nil, errors.New("there is no object where the servers belong")
		}
		next := memberOf(object, path[0])
		switch {
		case next == nil:
			return w.insert(at, object, path, e), nil
		case len(path) == 1:
			indent := lineIndent(w.data, next.StartOffset)
			return splice(w.data, next.StartOffset, next.EndOffset, e.Text(indent, w.unit())), nil
		}
		at, path = next, path[1:]
	}
}

// unit is what the text is indented by.
func (w jsonEditor) unit() string {
	if bytes.Contains(w.data, []byte("\n\t")) {
		return "\t"
	}
	return "  "
}

func memberOf(o *hujson.Object, name string) *hujson.Value {
	for i := range o.Members {
		if l, ok := o.Members[i].Name.Value.(hujson.Literal); ok && l.String() == name {
			return &o.Members[i].Value
		}
	}
	return nil
}

// insert puts the entry behind the last member of an object, in objects of
// its own where the path goes further, written as the object is: in a line of
// its own, or in one line with what is there.
func (w jsonEditor) insert(at *hujson.Value, o *hujson.Object, path []string, e tree.Entry) []byte {
	brace := at.EndOffset - 1
	end := len(bytes.TrimRight(w.data[:brace], " \t\r\n"))
	outer, unit := lineIndent(w.data, brace), w.unit()
	for i := len(path) - 1; i > 0; i-- {
		e = tree.Pairs(path[i], e)
	}
	ownLine := bytes.Contains(w.data[end:brace], []byte("\n"))
	text, after := "\n"+outer+unit+tree.Quoted(path[0])+": "+e.Text(outer+unit, unit), ""
	switch {
	case ownLine:
	case w.data[end-1] == '{':
		after = "\n" + outer
	default:
		text = " " + tree.Quoted(path[0]) + ": " + e.Line()
	}
	if len(o.Members) == 0 {
		return splice(w.data, end, end, text+after)
	}
	last := o.Members[len(o.Members)-1].Value
	if last.AfterExtra != nil { // a trailing comma is there, and stays one
		return splice(w.data, end, end, text+","+after)
	}
	withNew := splice(w.data, end, end, text+after)
	return splice(withNew, last.EndOffset, last.EndOffset, ",")
}

func splice(data []byte, from, to int, text string) []byte {
	return append(append(append([]byte{}, data[:from]...), text...), data[to:]...)
}

// lineIndent is the white space at the start of the line of an offset.
func lineIndent(data []byte, offset int) string {
	start := bytes.LastIndexByte(data[:offset], '\n') + 1
	line := data[start:]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// remove cuts the member out of the text, so that every comment around it stays.
func (w jsonEditor) remove(in []string, name string) ([]byte, error) {
	root, err := tree.ParseHuJSON(w.data)
	if err != nil {
		return nil, err
	}
	at := &root
	for _, step := range in {
		object, ok := at.Value.(*hujson.Object)
		if !ok {
			return nil, errors.New("there is no object where the servers belong")
		}
		if at = memberOf(object, step); at == nil {
			return w.data, nil
		}
	}
	object, ok := at.Value.(*hujson.Object)
	if !ok {
		return nil, errors.New("there is no object where the servers belong")
	}
	for i, m := range object.Members {
		if l, ok := m.Name.Value.(hujson.Literal); ok && l.String() == name {
			return jsonEditor{cutMember(w.data, object.Members, i)}.remove(in, name) // there may be a duplicate
		}
	}
	return w.data, nil
}

// cutMember cuts a member with one comma: that behind it, or, where it is the
// last one and has none, that of the member before.
func cutMember(data []byte, all []hujson.ObjectMember, i int) []byte {
	from, to := all[i].Name.StartOffset, all[i].Value.EndOffset
	if comma := to + len(all[i].Value.AfterExtra); data[comma] == ',' {
		data = splice(data, comma, comma+1, "")
	} else if i > 0 {
		before := all[i-1].Value
		comma = before.EndOffset + len(before.AfterExtra)
		data = splice(data, comma, comma+1, "")
		from, to = from-1, to-1
	}
	if text, ok := cutInserted(data, all, from, to); ok {
		return text
	}
	start := bytes.LastIndexByte(data[:from], '\n') + 1
	rest := bytes.TrimLeft(data[to:], " \t\r")
	end := len(data) - len(rest)
	if len(bytes.TrimSpace(data[start:from])) == 0 && start > 0 && bytes.HasPrefix(rest, []byte("\n")) {
		return splice(data, start, end+1, "")
	}
	return splice(data, from, end, "")
}

// cutInserted cuts what insert has put there: all from the end of what is
// before the member, and none of the white space behind it, but for the line
// end that an empty object got.
func cutInserted(data []byte, all []hujson.ObjectMember, from, to int) ([]byte, bool) {
	rest := bytes.TrimLeft(data[to:], " \t\r\n")
	behind := data[to : len(data)-len(rest)]
	cut := len(bytes.TrimRight(data[:from], " \t\r\n"))
	lineEnds := bytes.Count(behind, []byte("\n"))
	if !bytes.HasPrefix(rest, []byte("}")) || lineEnds == 0 && bytes.Contains(data[cut:from], []byte("\n")) {
		return nil, false // what is before may be a comment that needs its line end
	}
	if empty := len(all) == 1 && len(bytes.TrimSpace(all[0].Name.BeforeExtra)) == 0; empty && lineEnds == 1 {
		to = len(data) - len(rest) - len(bytes.TrimPrefix(behind, []byte("\n"+lineIndent(data, cut-1))))
	}
	return splice(data, cut, to, ""), true
}
