package catalog

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// A keywordKind is what the value of a keyword of JSON Schema must be.
type keywordKind uint8

const (
	free          keywordKind = iota // no keyword, or any value
	typeWord                         // the keyword type itself
	schemaMap                        // an object of schemas
	patternMap                       // an object of schemas under patterns
	dependencyMap                    // an object of schemas or lists of names
	namesMap                         // an object of lists of names
	schemaList                       // a list of schemas
	schemaOne                        // a schema
	itemsValue                       // a schema, or a list of them in older drafts
	words                            // a text
	pattern                          // a pattern
	reference                        // a reference to a schema
	dialect                          // the URI of a meta-schema
	identity                         // a URI that names the schema
	anchor                           // a plain name of the schema
	whole                            // a whole number from 0 on
	number                           // a number
	positive                         // a number above 0
	boolean                          // true or false
	nameList                         // a list of names, each once
	valueList                        // a list of values, not empty
	anyList                          // a list of values
	noKeyword                        // means nothing in a schema of today, and stops compilers
	nullability                      // OpenAPI's nullable
)

// keywords are those of JSON Schema 2020-12 and draft 7, and those of others
// that compilers stumble over.
var keywords = map[string]keywordKind{
	"type": typeWord,

	"properties": schemaMap, "$defs": schemaMap, "definitions": schemaMap, "dependentSchemas": schemaMap,
	"patternProperties": patternMap, "dependencies": dependencyMap, "dependentRequired": namesMap,
	"anyOf": schemaList, "oneOf": schemaList, "allOf": schemaList, "prefixItems": schemaList,
	"items": itemsValue, "additionalProperties": schemaOne, "additionalItems": schemaOne, "contains": schemaOne,
	"propertyNames": schemaOne, "not": schemaOne, "if": schemaOne, "then": schemaOne, "else": schemaOne,
	"unevaluatedItems": schemaOne, "unevaluatedProperties": schemaOne, "contentSchema": schemaOne,

	"$comment": words, "title": words, "description": words, "format": words,
	"contentEncoding": words, "contentMediaType": words,
	"pattern": pattern, "$ref": reference, "$dynamicRef": reference, "$recursiveRef": reference,
	"$schema": dialect, "$id": identity, "$anchor": anchor, "$dynamicAnchor": anchor,

	"minLength": whole, "maxLength": whole, "minItems": whole, "maxItems": whole,
	"minProperties": whole, "maxProperties": whole, "minContains": whole, "maxContains": whole,
	"minimum": number, "maximum": number, "exclusiveMinimum": number, "exclusiveMaximum": number,
	"multipleOf":  positive,
	"uniqueItems": boolean, "deprecated": boolean, "readOnly": boolean, "writeOnly": boolean, "$recursiveAnchor": boolean,
	"required": nameList, "enum": valueList,
	"examples": anyList, "id": noKeyword, "$async": noKeyword, "$vocabulary": noKeyword, "nullable": nullability,
}

// optional reports whether a null of the keyword is as good as absent; of others
// it may be a value.
func (k keywordKind) optional() bool {
	return k != free && k != typeWord && k != noKeyword && k != nullability
}

// dialects are the meta-schemas that are known; draft 4 and older ones give
// keywords another meaning.
var dialects = []string{
	"https://json-schema.org/draft/2020-12/schema", "https://json-schema.org/draft/2020-12/schema#",
	"https://json-schema.org/draft/2019-09/schema", "https://json-schema.org/draft/2019-09/schema#",
	"http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-07/schema",
	"https://json-schema.org/draft-07/schema#", "https://json-schema.org/draft-07/schema",
	"http://json-schema.org/draft-06/schema#", "http://json-schema.org/draft-06/schema",
}

// wrong says what is wrong with the value of a keyword that holds no schema;
// "" if nothing is.
func (k keywordKind) wrong(raw []byte) string {
	kind := kindOf(raw)
	switch k {
	case words:
		if kind != '"' {
			return "is not a text"
		}
	case identity:
		if name, fragment, _ := strings.Cut(text(raw), "#"); name == "" || fragment != "" {
			return "names no schema"
		}
	case pattern:
		if kind != '"' || !isPattern(text(raw)) {
			return "is not a regular expression of ECMAScript"
		}
	case dialect:
		if kind != '"' || !slices.Contains(dialects, text(raw)) {
			return "is not known"
		}
	case anchor:
		if kind != '"' || !isAnchor(text(raw)) {
			return "is not a plain name"
		}
	case boolean:
		if kind != 't' && kind != 'f' {
			return "is neither true nor false"
		}
	case whole, number, positive:
		return k.wrongNumber(raw)
	case valueList, anyList:
		if kind != '[' {
			return "is not a list"
		}
		if all, _ := elements(raw); k == valueList && len(all) == 0 {
			return "is empty"
		}
	default:
	}
	return ""
}

func (k keywordKind) wrongNumber(raw []byte) string {
	if kindOf(raw) != '0' {
		return "is not a number"
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	switch {
	case err != nil:
		return "is too large a number"
	case k == whole && (n < 0 || n != math.Trunc(n)):
		return "is not a whole number from 0 on"
	case k == positive && n <= 0:
		return "is not above 0"
	}
	return ""
}

func isAnchor(s string) bool {
	for i, r := range s {
		letter := r|0x20 >= 'a' && r|0x20 <= 'z' || r == '_'
		if !letter && (i == 0 || r != '-' && r != '.' && (r < '0' || r > '9')) {
			return false
		}
	}
	return s != ""
}
