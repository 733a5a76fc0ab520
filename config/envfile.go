package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/conf/tree"
)

// envFile takes the path of a file of variables, relative to the folder of the
// configuration. What "env" says itself counts more.
func (d *draft) envFile(r *reader, n *tree.Node) *fault.Fault {
	var path string
	if err := d.interpolated(&path)(r, n); err != nil || path == "" || r.References == AsWritten {
		return err
	}
	if r.References == Kept {
		d.EnvFile = seenFrom(filepath.Dir(r.file), path)
		return nil
	}
	fail := func(err error) *fault.Fault {
		return tree.Invalid(r.file, n.Pos, "fix the file, or correct envFile", "the envFile %s: %v", path, err)
	}
	text, err := r.readFile(path)
	if err != nil {
		return fail(err)
	}
	if d.fileEnv, err = parseEnvFile(text); err != nil {
		return fail(err)
	}
	return nil
}

// addFileEnv puts the variables of the envFile under those of "env".
func (d *draft) addFileEnv() {
	if len(d.fileEnv) == 0 {
		return
	}
	env := maps.Clone(d.fileEnv)
	maps.Copy(env, d.Env)
	d.Env = env
}

// parseEnvFile reads lines of NAME=value. Empty lines and those that begin
// with # mean nothing, "export" before a name is allowed. A value in single
// quotes is taken as it is; in double quotes \n, \r, \t, \" and \\ have their
// usual meaning; without quotes it ends at the line, or at a # after a space.
// Nothing is interpolated.
func parseEnvFile(text string) (map[string]string, error) {
	vars := map[string]string{}
	n := 0
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		name = strings.TrimSpace(strings.TrimPrefix(name, "export "))
		if !ok || name == "" || strings.ContainsAny(name, " \t\"'\x00") {
			return nil, fmt.Errorf("line %d is not NAME=value", n) // not the line itself: it may be a secret
		}
		value, ok = unquote(strings.TrimSpace(value))
		if !ok {
			return nil, fmt.Errorf("line %d: the value of %s has a quote without an end, or a NUL", n, name)
		}
		vars[name] = value
	}
	return vars, nil
}

var escapes = strings.NewReplacer(`\n`, "\n", `\r`, "\r", `\t`, "\t", `\"`, `"`, `\\`, `\`)

// unquote reads a value; ok is false for a quote without an end, or a NUL, which no
// environment can hold.
func unquote(v string) (string, bool) {
	if strings.ContainsRune(v, 0) {
		return "", false
	}
	if v == "" || v[0] != '"' && v[0] != '\'' {
		if at := strings.Index(v, " #"); at >= 0 {
			v = strings.TrimSpace(v[:at])
		}
		return v, true
	}
	quote, rest := v[0], v[1:]
	for i := 0; i < len(rest); i++ {
		switch {
		case rest[i] == '\\' && quote == '"':
			i++
		case rest[i] == quote:
			after := strings.TrimSpace(rest[i+1:])
			if after != "" && after[0] != '#' {
				return "", false
			}
			if quote == '"' {
				return escapes.Replace(rest[:i]), true
			}
			return rest[:i], true
		}
	}
	return "", false
}
