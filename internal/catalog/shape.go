package catalog

import "github.com/everline/everline/internal/wire"

// A shape says which optional members strict clients know, and of which type
// they must be. Members that it does not name are nobody's business here.
type shape map[string]want

type want struct {
	kind   byte   // as from kindOf; 't' stands for both booleans
	nested shape  // of the object, or of each object in the array; nil: anything
	must   string // a text that each object in the array must have; "": none
	// check says what is wrong with a value of that type; "" if nothing is. nil:
	// any will do.
	check func(raw []byte) string
}

var kindWords = map[byte]string{'"': "a string", '{': "an object", '[': "an array", 't': "a boolean", '0': "a number"}

// shapes are those of the four kinds, by Kind. A null in _meta or in a schema
// may have a meaning; so nothing in _meta is looked at, and schemas are
// repaired by rules of their own.
var shapes = func() [len(Kinds)]shape {
	str, flag, meta := want{kind: '"'}, want{kind: 't'}, want{kind: '{'}
	icons := want{kind: '[', must: "src", nested: shape{
		"src": str, "mimeType": str, "theme": {kind: '"', check: oneOf("light", "dark")}, "sizes": {kind: '[', check: each(isText)},
	}}
	audience := want{kind: '{', nested: shape{
		"audience":     {kind: '[', check: each(oneOf("user", "assistant"))},
		"priority":     {kind: '0', check: isPriority},
		"lastModified": {kind: '"', check: isMoment},
	}}
	return [...]shape{
		Tools: {
			"title": str, "description": str, "icons": icons, "_meta": meta,
			"outputSchema": {kind: '{'},
			"execution":    {kind: '{', nested: shape{"taskSupport": {kind: '"', check: oneOf("required", "optional", "forbidden")}}},
			"annotations": {kind: '{', nested: shape{
				"title": str, "readOnlyHint": flag, "destructiveHint": flag, "idempotentHint": flag, "openWorldHint": flag,
			}},
		},
		Prompts: {
			"title": str, "description": str, "icons": icons, "_meta": meta,
			"arguments": {kind: '[', must: "name", nested: shape{
				"title": str, "description": str, "required": flag,
			}},
		},
		Resources: {
			"title": str, "description": str, "icons": icons, "_meta": meta, "mimeType": str, "size": {kind: '0', check: isSize}, "annotations": audience,
		},
		Templates: {
			"title": str, "description": str, "icons": icons, "_meta": meta, "mimeType": str, "annotations": audience,
		},
	}
}()

// repair removes optional members that are null, which is as good as absent, or
// of a type that strict clients refuse.
func (s shape) repair(o *object, where string, n *notes) {
	for i, m := range o.members {
		if _, known := s[m.Name]; known && o.find(m.Name) > i {
			n.add("%s%s is given more than once; the last one counts", where, m.Name)
			o.set(m.Name, o.get(m.Name))
			s.repair(o, where, n)
			return
		}
	}
	for _, m := range o.members {
		w, known := s[m.Name]
		if !known {
			continue
		}
		kind := kindOf(m.Value)
		if kind == 'f' {
			kind = 't'
		}
		switch {
		case kind == 'n':
			n.add("%s%s is null; removed", where, m.Name)
			o.remove(m.Name)
		case kind != w.kind:
			n.add("%s%s is not %s; removed", where, m.Name, kindWords[w.kind])
			o.remove(m.Name)
		case w.check != nil:
			if says := w.check(m.Value); says != "" {
				n.add("%s%s %s; removed", where, m.Name, says)
				o.remove(m.Name)
			}
		case w.nested != nil && kind == '{':
			if sub, ok := parseObject(m.Value); ok {
				w.nested.repair(&sub, where+m.Name+".", n)
				o.keep(m.Name, &sub)
			}
		case w.nested != nil:
			w.repairAll(o, m, where, n)
		}
	}
}

// repairAll repairs the objects of an array, and drops what no client could use.
func (w want) repairAll(o *object, m wire.Field, where string, n *notes) {
	all, _ := elements(m.Value)
	kept := make([][]byte, 0, len(all))
	touched := false
	for _, e := range all {
		sub, ok := parseObject(e)
		if !ok || text(sub.get(w.must)) == "" {
			n.add("an element of %s%s has no %s; removed", where, m.Name, w.must)
			touched = true
			continue
		}
		w.nested.repair(&sub, where+m.Name+"[].", n)
		touched = touched || sub.touched
		kept = append(kept, sub.bytes())
	}
	if touched {
		o.set(m.Name, array(kept))
	}
}

// keep puts a member back if it was changed.
func (o *object) keep(key string, sub *object) {
	if sub.touched {
		o.set(key, sub.bytes())
	}
}
