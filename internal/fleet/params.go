package fleet

import "encoding/json"

func uriParams(uri string) []byte { return object("uri", uri) }

func levelParams(level string) []byte { return object("level", level) }

// object encodes an object of one text member.
func object(key, value string) []byte {
	b, err := json.Marshal(map[string]string{key: value})
	if err != nil {
		panic("bug: a map of strings does not encode: " + err.Error())
	}
	return b
}
