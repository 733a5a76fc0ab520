package web

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/conf/clients"
	"github.com/everline/everline/internal/conf/edit"
	"github.com/everline/everline/internal/conf/redact"
	"github.com/everline/everline/internal/conf/settings"
	"github.com/everline/everline/internal/conf/tree"
	"github.com/everline/everline/internal/program"
)

// Pasted is the answer of POST /api/v1/validate: what a part of a configuration file
// would be here. Nothing is started, written or looked up for it.
type Pasted struct {
	Format   string         `json:"format"` // a title
	Servers  []PastedServer `json:"servers"`
	Warnings []string       `json:"warnings"` // each with its place, servers that could not start among them
}

// PastedServer is one of them.
type PastedServer struct {
	Name    string `json:"name"`
	Exists  bool   `json:"exists"`  // one of that name is configured here
	Command string `json:"command"` // adds it; "" where no command says all of it
	Text    string `json:"text"`    // what a file of ours says of it
}

// maxPasted bounds what is pasted in bytes.
const maxPasted = 1 << 20

func (s *Site) validate(w http.ResponseWriter, r *http.Request) {
	var req struct{ Text, Format string }
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxPasted)).Decode(&req); err != nil || strings.TrimSpace(req.Text) == "" {
		refuse(w, http.StatusBadRequest, fault.Invalid, `the body must be {"text","format"}, of 1 MiB at most`, "")
		return
	}
	out := Pasted{Servers: []PastedServer{}, Warnings: []string{}}
	file, text, found, warnings, err := readPasted(req.Format, req.Text)
	if err != nil {
		f := fault.From("validate", err)
		refuse(w, http.StatusUnprocessableEntity, f.Kind, f.Reason(), f.Remedy)
		return
	}
	if out.Format = req.Format; out.Format == "" {
		out.Format, _ = clients.Detect(file, []byte(text)) // it was read above
	}
	out.Format = clients.Title(out.Format)
	for _, one := range found {
		_, exists := s.opts.Hub.Server(one.Name)
		ours, err := edit.SetServer(clients.Everline, "everline.json", nil, one.Name, one.Entry)
		if err != nil {
			ours = nil // the warnings of the reader say why
		}
		out.Servers = append(out.Servers, PastedServer{one.Name, exists, addCommand(one.Name, one.Entry, exists), string(ours)})
	}
	for _, warning := range warnings {
		out.Warnings = append(out.Warnings, warning.String())
	}
	answer(w, out)
}

// readPasted reads a text whose syntax nobody has named: a whole file of some client,
// or of one in JSON the part with its servers.
func readPasted(format, pasted string) (file, text string, found []settings.Imported, warnings []config.Warning, err error) {
	for i, try := range tries(pasted) {
		all, noted, failed := settings.Import(config.Options{Format: format}, try.file, []byte(try.text))
		if failed == nil && (i == 0 || len(all) > 0) {
			file, text, found, warnings, err = try.file, try.text, all, noted, nil
		} else if i == 0 {
			err = failed
		}
		if len(found) > 0 {
			break
		}
	}
	return file, text, found, warnings, err
}

type try struct{ file, text string }

func tries(pasted string) []try {
	trimmed := strings.TrimSpace(pasted)
	switch {
	case strings.HasPrefix(trimmed, "{"):
		return []try{{"pasted.json", pasted}, {"pasted.json", `{"mcpServers":` + pasted + "}"}}
	case strings.HasPrefix(trimmed, `"`):
		inside := strings.TrimSuffix(trimmed, ",")
		return []try{{"pasted.json", "{" + inside + "}"}, {"pasted.json", `{"mcpServers":{` + inside + "}}"}}
	case strings.HasPrefix(trimmed, "["):
		return []try{{"pasted.toml", pasted}}
	default:
		return []try{{"pasted.yaml", pasted}, {"pasted.toml", pasted}}
	}
}

// addCommand is the everline add for a server; "" where its flags do not say all that
// the entry does. A secret that stands in the entry becomes a reference.
func addCommand(name string, entry tree.Entry, exists bool) string {
	words := []string{"everline", "add", program.Quote(name)}
	var flags, command []string
	for _, m := range entry {
		switch v := m.Value.(type) {
		case string:
			switch m.Key {
			case "url":
				words = append(words, program.Quote(v))
			case "command":
				command = append([]string{"--", program.Quote(v)}, command...)
			case "type":
				flags = append(flags, "--type", program.Quote(v))
			case "cwd":
				flags = append(flags, "--cwd", program.Quote(v))
			default:
				return ""
			}
		case []string:
			if m.Key != "args" {
				return ""
			}
			for _, arg := range v {
				command = append(command, program.Quote(arg))
			}
		case tree.Entry:
			pairs, ok := pairFlags(m.Key, v)
			if !ok {
				return ""
			}
			flags = append(flags, pairs...)
		case bool:
			if m.Key != "disabled" || !v {
				return ""
			}
			flags = append(flags, "--disabled")
		default:
			return ""
		}
	}
	if exists {
		flags = append(flags, "--force")
	}
	return strings.Join(append(append(words, flags...), command...), " ")
}

func pairFlags(key string, pairs tree.Entry) (flags []string, ok bool) {
	flag, between, known := "", "", map[string][2]string{"env": {"--env", "="}, "headers": {"--header", ": "}}
	if flag, between = known[key][0], known[key][1]; flag == "" {
		return nil, false
	}
	for _, p := range pairs {
		value, isText := p.Value.(string)
		if !isText {
			return nil, false
		}
		if redact.Value(p.Key, value) != value || redact.LooksSecret(value) {
			value = "${" + strings.ToUpper(strings.ReplaceAll(p.Key, "-", "_")) + "}"
		}
		flags = append(flags, flag, program.Quote(p.Key+between+value))
	}
	return flags, true
}
