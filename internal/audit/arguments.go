package audit

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/everline/everline/config"
	"github.com/everline/everline/internal/owned"
)

// maxArguments is how many bytes of arguments are kept.
const maxArguments = 4 << 10

// keyName is the file with the key under which arguments are hashed, so that a
// short value cannot be found by trying all.
const keyName = "arguments.key"

// argumentKey reads the key of a folder, or makes one.
func argumentKey(folder string) ([]byte, error) {
	path := filepath.Join(folder, keyName)
	key, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		key = make([]byte, sha256.Size)
		_, _ = rand.Read(key) // never fails
		err = owned.Write(path, key, 0o600)
	}
	if err == nil && len(key) != sha256.Size {
		err = &fs.PathError{Op: "use", Path: path, Err: errors.New("it is no key")}
	}
	return key, err
}

// Describe puts into the request what is recorded of the arguments of a call.
func (l *Log) Describe(q *Request, arguments []byte) {
	if l == nil || len(arguments) == 0 {
		return
	}
	switch l.settings().Arguments {
	case config.AuditNames:
		q.Names = names(arguments)
	case config.AuditHash:
		q.SHA256 = l.keyed(arguments)
	case config.AuditFull:
		q.Arguments = Masked(arguments)
	case config.AuditNone:
	}
}

func (l *Log) keyed(arguments []byte) string {
	key, err := l.key()
	if err != nil {
		l.trouble.warn("arguments are recorded without a hash", err)
		return ""
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(arguments)
	return hex.EncodeToString(mac.Sum(nil))
}

// names are the first names of an object's members.
func names(object []byte) (all []string) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	for dec.More() && len(all) < maxNames {
		name, err := dec.Token()
		if err != nil {
			return all
		}
		var skipped json.RawMessage
		if dec.Decode(&skipped) != nil {
			return all
		}
		all = append(all, name.(string))
	}
	return all
}

// secretWords are parts of the names of members whose values are never kept.
var secretWords = []string{"password", "passwd", "passphrase", "token", "secret", "key", "authorization", "cookie", "credential"}

// Masked is a JSON text without the values of members whose names say that they
// are secret.
func Masked(arguments []byte) string {
	dec := json.NewDecoder(bytes.NewReader(arguments))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return ""
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(mask(v)) != nil {
		return ""
	}
	return strings.TrimSpace(b.String())
}

func mask(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if secretName(name) {
				v[name] = "***"
			} else {
				v[name] = mask(member)
			}
		}
	case []any:
		for i := range v {
			v[i] = mask(v[i])
		}
	}
	return v
}

func secretName(name string) bool {
	name = strings.ToLower(name)
	for _, word := range secretWords {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}
