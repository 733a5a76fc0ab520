package catalog

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"github.com/everline/everline/internal/wire"
)

// A schema repairs one of a tool's schemas so that clients, compilers of schemas
// and model APIs take it. An input schema is changed without ever refusing
// arguments that it would have accepted as it was sent: what means nothing new
// is added, and what has no meaning is taken away. An output schema that is not
// right is not repaired, because clients check results against it.
type schema struct {
	notes    *notes
	output   bool
	broken   string // the first thing that was not right, beside nulls
	loosened int    // how often something was taken away that may have refused values
	refs     *refs  // nil if there are no references
	tuples   bool   // the schema is of a draft in which items may be a list
}

// begin looks at what holds for the whole schema.
func (s *schema) begin(root *object, ids bool) {
	s.refs = newRefs(root.raw, ids)
	named := text(root.get("$schema"))
	s.tuples = slices.Contains(dialects[2:], named)
}

// fix notes something that is not right.
func (s *schema) fix(format string, args ...any) {
	s.notes.add(format, args...)
	s.breaks(format, args...)
}

func (s *schema) breaks(format string, args ...any) {
	if s.broken == "" {
		s.broken = fmt.Sprintf(format, args...)
	}
}

// loosen is fix for what is taken away.
func (s *schema) loosen(format string, args ...any) {
	s.notes.add(format+"; removed", args...)
	s.breaks(format, args...)
	s.loosened++
}

// Limits of schemas. What is beyond is not published: many readers have limits,
// too, and refuse the whole list.
const (
	maxDepth  = 64
	maxSchema = 1 << 20 // bytes
)

var anyObject = []byte(`{"type":"object"}`)

// input repairs an input schema; reason is why it cannot be repaired.
func (s *schema) input(raw []byte) (repaired []byte, reason string) {
	switch kindOf(raw) {
	case 0:
		s.fix("has no inputSchema; any object is taken")
		return anyObject, ""
	case 'n', 't':
		s.fix("inputSchema is %s; any object is taken", raw)
		return anyObject, ""
	case '[':
		if all, _ := elements(raw); len(all) == 0 { // an empty object as PHP encodes it
			s.fix("inputSchema is []; any object is taken")
			return anyObject, ""
		}
	}
	o, ok := parseObject(raw)
	if !ok {
		return nil, "inputSchema is not an object"
	}
	if !s.takesObject(&o) {
		return nil, "inputSchema takes no object: its type is " + clip(o.get("type"))
	}
	if len(o.raw) > maxSchema || nesting(o.raw) > maxDepth {
		s.fix("inputSchema is too large or too deep to be checked; any object is taken")
		return anyObject, ""
	}
	s.begin(&o, true)
	if s.refs == nil || !s.refs.byName() {
		s.anonymous(&o, "inputSchema")
	}
	s.repair(&o, "inputSchema")
	s.complete(&o, "inputSchema", true)
	if repaired = o.bytes(); s.safe(repaired) {
		return repaired, ""
	}
	s.fix("inputSchema cannot be taken apart; any object is taken")
	return anyObject, ""
}

// anonymous removes the name of the whole schema, which no reference needs:
// compilers take schemas of one name, of whatever server, for the same.
func (s *schema) anonymous(o *object, where string) {
	if kindOf(o.get("$id")) == '"' {
		s.notes.add("%s.$id removed", where)
		o.remove("$id")
	}
}

// safe reports whether a schema from which something was taken away still takes
// all that it took before, and whether its references still lead somewhere.
func (s *schema) safe(repaired []byte) bool {
	if s.loosened == 0 {
		return true
	}
	if bytes.Contains(repaired, []byte(`"unevaluated`)) { // refuses what the rest does not know
		return false
	}
	o, _ := parseObject(repaired)
	again := schema{notes: &notes{}}
	again.begin(&o, true)
	again.repair(&o, "")
	return again.loosened == 0
}

// takesObject makes the type of a whole input schema "object", unless it says
// plainly that it is something else. Arguments are always an object, so that
// nothing is refused by it.
func (s *schema) takesObject(o *object) bool {
	t := o.get("type")
	all, many := elements(t)
	if !many {
		all = [][]byte{t}
	}
	known := 0
	for _, e := range all {
		switch typeOf(e) {
		case "object":
			known = -1
		case "":
			continue
		}
		if known < 0 {
			break
		}
		known++
	}
	if known > 0 {
		return false
	}
	if t != nil && text(t) != "object" {
		s.fix("inputSchema.type is %s; read as \"object\"", clip(t))
		o.set("type", []byte(`"object"`))
	}
	return true
}

// checkOutput repairs what means nothing in an output schema, and tells why the
// schema is not right; "" if it is. Clients of most revisions ask for a type that
// is "object", and refuse the list otherwise.
func (s *schema) checkOutput(raw []byte) (repaired []byte, reason string) {
	o, ok := parseObject(raw)
	switch {
	case !ok:
		return nil, "not an object"
	case len(o.raw) > maxSchema || nesting(o.raw) > maxDepth:
		return nil, "too large or too deep to be checked"
	case o.get("type") == nil && o.get("properties") != nil:
		s.notes.add("outputSchema has no type; \"object\" added")
		o.set("type", []byte(`"object"`))
	case text(o.get("type")) != "object" && typeOf(o.get("type")) != "object":
		return nil, "it does not say that results are of type \"object\""
	}
	s.output = true
	s.begin(&o, false)
	s.anonymous(&o, "outputSchema")
	s.repair(&o, "outputSchema")
	return o.bytes(), s.broken
}

// repair repairs one schema and all in it.
func (s *schema) repair(o *object, where string) {
	s.once(o, where)
	for _, m := range o.members {
		k := keywords[m.Name]
		if k == free {
			s.repairUnknown(o, m, where)
			continue
		}
		if s.loosened > 0 && o.find(m.Name) < 0 {
			continue // taken away with another one
		}
		place := where + "." + m.Name
		if kindOf(m.Value) == 'n' && k.optional() {
			s.notes.add("%s is null; removed", place)
			o.remove(m.Name)
			continue
		}
		switch k {
		case typeWord:
			s.repairType(o, m, place)
		case schemaMap, patternMap, dependencyMap, namesMap:
			s.repairMap(o, m, place, k)
		case schemaList:
			s.repairList(o, m, place)
		case schemaOne, itemsValue:
			s.repairOne(o, m, place, k)
		case nameList:
			s.repairNames(o, m, place)
		case reference:
			if wrong := s.wrongReference(m.Value); wrong != "" {
				s.loosen("%s %s", place+" "+clip(m.Value), wrong)
				o.remove(m.Name)
			}
		case noKeyword:
			s.notes.add("%s means nothing; removed", place)
			o.remove(m.Name)
		case nullability: // when it is known what becomes of the type
		default:
			if wrong := s.wrong(k, m.Value); wrong != "" {
				s.loosen("%s %s", place, wrong)
				o.remove(m.Name)
			} else if k == valueList {
				s.unique(o, m, place)
			}
		}
	}
	if o.find("nullable") >= 0 {
		s.repairNullable(o, where+".nullable")
	}
	s.complete(o, where, false)
}

// wrong is keywordKind.wrong with what is known of the whole schema.
func (s *schema) wrong(k keywordKind, raw []byte) string {
	wrong := k.wrong(raw)
	switch {
	case wrong != "" || k != identity:
		return wrong
	case s.output:
		return "is not supported below the root"
	case s.refs != nil && s.refs.ambiguous(text(raw)):
		return "is the name of several schemas"
	default:
		return ""
	}
}

// once leaves the last of keywords that are given more than once.
func (s *schema) once(o *object, where string) {
	again := func(i int, m wire.Field) bool { return keywords[m.Name] != free && o.find(m.Name) != i }
	for i, m := range o.members {
		if again(i, m) {
			s.notes.add("%s.%s is given more than once; the last one counts", where, m.Name)
			o.set(m.Name, o.get(m.Name))
			s.once(o, where)
			return
		}
	}
}

// wrongReference says what is wrong with the value of $ref. What a reference
// finds outside of the places where schemas are is checked here.
func (s *schema) wrongReference(raw []byte) string {
	if kindOf(raw) != '"' {
		return "is not a text"
	}
	ref := text(raw)
	if s.refs == nil {
		return "leads nowhere"
	}
	if wrong := s.refs.wrong(ref); wrong != "" {
		return wrong
	}
	if target := s.refs.unchecked(ref); target != nil {
		aside := schema{notes: &notes{}, output: s.output, refs: s.refs, tuples: s.tuples}
		if aside.one(target, ref); aside.broken != "" {
			s.refs.known[ref] = verdict{wrong: "leads to " + aside.broken}
		}
	}
	return s.refs.known[ref].wrong
}

// repairNullable removes OpenAPI's nullable where compilers know nothing to do
// with it.
func (s *schema) repairNullable(o *object, place string) {
	value := string(o.get("nullable"))
	_, several := elements(o.get("type"))
	if o.get("type") != nil && (value == "true" || value == "false" && !several && text(o.get("type")) != "null") {
		return
	}
	s.notes.add("%s means nothing; removed", place)
	o.remove("nullable")
}

// complete adds what schemas may leave out but many readers miss.
func (s *schema) complete(o *object, where string, root bool) {
	if root && o.get("type") == nil {
		s.fix("%s has no type; \"object\" added", where)
		o.set("type", []byte(`"object"`))
	}
	if !s.output && text(o.get("type")) == "array" && o.get("items") == nil && o.get("prefixItems") == nil {
		s.fix("%s is an array without items; {} added", where)
		o.set("items", []byte(`{}`))
	}
}

var types = []string{"string", "number", "integer", "boolean", "object", "array", "null"}

// typeWords are names that other type systems have for the types.
var typeWords = map[string]string{
	"int": "integer", "int32": "integer", "int64": "integer", "long": "integer",
	"float": "number", "float64": "number", "double": "number", "decimal": "number",
	"str": "string", "text": "string", "bool": "boolean",
	"dict": "object", "map": "object", "struct": "object", "list": "array", "none": "null",
}

// typeOf returns the type's right name; "" if there is none.
func typeOf(raw []byte) string {
	t := text(raw)
	if slices.Contains(types, t) {
		return t
	}
	return typeWords[t]
}

// repairType gives types their right names, and removes those that have none.
func (s *schema) repairType(o *object, m wire.Field, place string) {
	all, many := elements(m.Value)
	if !many {
		all = [][]byte{m.Value}
	}
	var right []string
	same, known := true, len(all) > 0
	for _, raw := range all {
		t := typeOf(raw)
		duplicate := slices.Contains(right, t)
		same = same && t == text(raw) && !duplicate
		known = known && t != ""
		if !duplicate {
			right = append(right, t)
		}
	}
	switch {
	case !known: // an unknown type may have meant anything
		s.loosen("%s is %s", place, clip(m.Value))
		o.remove("type")
	case same:
	case many:
		s.fix("%s is %s; read as %s", place, m.Value, texts(right))
		o.set("type", texts(right))
	default:
		s.fix("%s is %s; read as %s", place, m.Value, quote(right[0]))
		o.set("type", quote(right[0]))
	}
}

// repairMap repairs what is under names, such as properties.
func (s *schema) repairMap(o *object, m wire.Field, place string, k keywordKind) {
	sub, ok := parseObject(m.Value)
	if !ok {
		s.loosen("%s is not an object", place)
		o.remove(m.Name)
		return
	}
	root := place == "inputSchema.properties" || place == "outputSchema.properties"
	kept := make([]wire.Field, 0, len(sub.members))
	for _, p := range sub.members {
		here := place + "." + p.Name
		switch {
		case k == patternMap && !isPattern(p.Name):
			s.loosen("%s is under no regular expression of ECMAScript", here)
			o.remove("additionalProperties") // which would refuse what this has let pass
			sub.touched = true
			continue
		case k == namesMap && !isTexts(p.Value):
			s.loosen("%s is not a list of names", here)
			sub.touched = true
			continue
		case k == namesMap, k == dependencyMap && isTexts(p.Value):
			kept = append(kept, p)
			continue
		case p.Name == "required" && isTexts(p.Value): // meant one level higher
			s.loosen("%s is no schema", here)
			sub.touched = true
			continue
		}
		v, ok := s.one(p.Value, here)
		if value := objectFor[kindOf(p.Value)]; root && value != "" {
			s.notes.add("%s is %s; written as %s", here, p.Value, value)
			v, ok = []byte(value), true
		}
		if ok {
			p = newMember(p.Name, v)
			sub.touched = true
		}
		kept = append(kept, p)
	}
	sub.members = kept
	o.keep(m.Name, &sub)
}

// objectFor has the objects that say the same as true and false: of the schemas
// of properties at the root, clients accept nothing else.
var objectFor = map[byte]string{'t': `{}`, 'f': `{"not":{}}`}

// repairList repairs the schemas of a list, such as anyOf.
func (s *schema) repairList(o *object, m wire.Field, place string) {
	all, ok := elements(m.Value)
	if !ok || len(all) == 0 {
		s.loosen("%s is not a list of schemas", place)
		o.remove(m.Name)
		return
	}
	touched, before := false, s.loosened
	for i := range all {
		if v, ok := s.one(all[i], place+"["+strconv.Itoa(i)+"]"); ok {
			all[i], touched = v, true
		}
	}
	switch {
	case m.Name == "oneOf" && s.loosened > before: // it refuses what fits two
		o.remove(m.Name)
	case touched:
		o.set(m.Name, array(all))
	}
}

// repairOne repairs the schema that is the value of a keyword.
func (s *schema) repairOne(o *object, m wire.Field, place string, k keywordKind) {
	if k == itemsValue && kindOf(m.Value) == '[' {
		s.repairTuple(o, m, place)
		return
	}
	before := s.loosened
	v, ok := s.one(m.Value, place)
	switch {
	case (m.Name == "not" || m.Name == "if") && s.loosened > before: // it refuses what fits
		o.remove(m.Name)
	case ok:
		o.set(m.Name, v)
	}
}

// repairTuple repairs items that are a list, which they can be in old drafts alone:
// since 2020-12 the list is called prefixItems.
func (s *schema) repairTuple(o *object, m wire.Field, place string) {
	all, _ := elements(m.Value)
	if s.tuples && len(all) > 0 {
		s.repairList(o, m, place)
		return
	}
	s.fix("%s is a list", place)
	o.remove("items")
	if len(all) > 0 && o.get("prefixItems") == nil {
		m = newMember("prefixItems", m.Value)
		o.set(m.Name, m.Value)
		s.repairList(o, m, place)
	}
}

// repairUnknown removes a member that is no keyword if it has names of schemas in
// it: compilers look for these everywhere.
func (s *schema) repairUnknown(o *object, m wire.Field, where string) {
	if kindOf(m.Value) == '{' && m.Name != "default" && m.Name != "const" &&
		(bytes.Contains(m.Value, []byte(`$id"`)) || bytes.Contains(m.Value, []byte(`nchor"`))) {
		s.notes.add("%s.%s has $id or $anchor in it, and is no keyword; removed", where, m.Name)
		o.remove(m.Name)
	}
}

// repairNames removes names that a list has more than once.
func (s *schema) repairNames(o *object, m wire.Field, place string) {
	if !isTexts(m.Value) {
		s.loosen("%s is not a list of names", place)
		o.remove(m.Name)
		return
	}
	s.unique(o, m, place)
}

// unique removes values that a list has more than once.
func (s *schema) unique(o *object, m wire.Field, place string) {
	all, _ := elements(m.Value)
	if !anyTwice(all) {
		return
	}
	n := len(all)
	seen := make(map[string]bool, n)
	all = slices.DeleteFunc(all, func(e []byte) bool {
		duplicate := seen[string(e)]
		seen[string(e)] = true
		return duplicate
	})
	if len(seen) == n {
		return
	}
	s.notes.add("%s has some more than once", place)
	o.set(m.Name, array(all))
}

// anyTwice needs no memory for short lists, which nearly all are.
func anyTwice(all [][]byte) bool {
	if len(all) > 32 {
		return true // perhaps
	}
	for i, e := range all {
		if slices.ContainsFunc(all[:i], func(o []byte) bool { return bytes.Equal(o, e) }) {
			return true
		}
	}
	return false
}

// one repairs one schema in another. ok is false if it can stay as it is.
func (s *schema) one(raw []byte, place string) (repaired []byte, ok bool) {
	switch kindOf(raw) {
	case 't', 'f':
		return nil, false
	case '{':
		o, _ := parseObject(raw)
		s.repair(&o, place)
		return o.bytes(), o.touched
	default:
		s.fix("%s is no schema; anything is taken", place)
		s.loosened++
		return []byte("{}"), true
	}
}

// texts is the text of an array of these strings.
func texts(all []string) []byte {
	quoted := make([][]byte, len(all))
	for i, s := range all {
		quoted[i] = quote(s)
	}
	return array(quoted)
}

// nesting is how deeply arrays and objects are nested in a text.
func nesting(raw []byte) int {
	traits, _ := wire.Inspect(raw)
	return traits.Depth
}

func isTexts(raw []byte) bool {
	all, ok := elements(raw)
	return ok && !slices.ContainsFunc(all, func(e []byte) bool { return kindOf(e) != '"' })
}

// clip shortens a value for a warning.
func clip(raw []byte) string { return string(raw[:min(len(raw), 80)]) }
