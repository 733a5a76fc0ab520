package fileedit

import (
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/conf/clients"
	"github.com/everline/everline/internal/conf/edit"
	"github.com/everline/everline/internal/conf/settings"
	"github.com/everline/everline/internal/conf/tree"
)

// Places are the files of clients that may be on this machine.
func Places() ([]clients.Place, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, &fault.Fault{Kind: fault.Invalid, Op: "look for the files of clients", Err: err, Remedy: "set HOME"}
	}
	project, err := os.Getwd()
	if err != nil {
		project = ""
	}
	if project == home {
		project = "" // the user's files would be found twice
	}
	return clients.Places(runtime.GOOS, home, os.Getenv("APPDATA"), project), nil
}

// ClientFile is the file of one client: the first of its usual ones that
// exists, else the first; "" if it has none.
func ClientFile(format string, project bool) (string, error) {
	all, err := Places()
	if err != nil {
		return "", err
	}
	all = slices.DeleteFunc(all, func(p clients.Place) bool { return p.Format != format || p.Project != project })
	for _, p := range all {
		if _, err := os.Stat(p.Path); err == nil {
			return p.Path, nil
		}
	}
	if len(all) == 0 {
		return "", nil
	}
	return all[0].Path, nil
}

// A Found is one server of a client's file: the JSON of everline import.
type Found struct {
	Client string `json:"client"`
	File   string `json:"file"`
	Server string `json:"server"`
	State  string `json:"state"` // FoundNew or FoundDuplicate

	entry tree.Entry
}

// The states of a server that was found.
const (
	FoundNew       = "new"
	FoundDuplicate = "duplicate" // an earlier file has the name
)

// Find reads the servers of clients: from the named files, else from those of
// this machine, of one format unless that is "". A broken file fails if it was
// named; else it costs a warning.
func Find(stateDir string, named []string, format string) (all []Found, warnings []string, err error) {
	files, err := importFiles(named, format)
	if err != nil {
		return nil, nil, err
	}
	linked, err := readLinks(stateDir)
	if err != nil {
		return nil, nil, err
	}
	all, seen := []Found{}, map[string]bool{}
	for _, p := range files {
		servers, texts, err := readClient(linked, p)
		if err != nil && len(named) > 0 {
			return nil, nil, err
		}
		if err != nil {
			texts = append(texts, err.Error())
		}
		warnings = append(warnings, texts...)
		for _, f := range servers {
			if seen[f.Server] {
				f.State = FoundDuplicate
			}
			seen[f.Server] = true
			all = append(all, f)
		}
	}
	return all, warnings, nil
}

// importFiles are the files to look through, those that exist.
func importFiles(named []string, format string) ([]clients.Place, error) {
	if len(named) == 0 {
		all, err := Places()
		return slices.DeleteFunc(all, func(p clients.Place) bool {
			_, err := os.Stat(p.Path)
			return err != nil || format != "" && p.Format != format
		}), err
	}
	var all []clients.Place
	for _, path := range named {
		abs, err := filepath.Abs(path)
		if err != nil {
			return nil, Fault("read", path, err)
		}
		if _, err := os.Stat(abs); err != nil {
			return nil, Fault("read", path, err)
		}
		all = append(all, clients.Place{Format: format, Path: abs})
	}
	return all, nil
}

// readClient reads the servers of one file, and leaves everline itself out.
func readClient(linked links, p clients.Place) (all []Found, warnings []string, err error) {
	data, err := Read(p.Path)
	if err != nil {
		return nil, nil, err
	}
	project, _ := os.Getwd() // "" reads no project's servers of a user's file
	servers, noted, err := settings.Import(config.Options{Format: p.Format, Workspace: project}, p.Path, data)
	if err != nil {
		return nil, nil, err
	}
	for _, w := range noted {
		warnings = append(warnings, w.String())
	}
	format := p.Format
	if format == "" {
		format, _ = clients.Detect(p.Path, data) // it was read above
	}
	for _, s := range servers {
		if !isUs(linked, format, p.Path, data, s) {
			all = append(all, Found{Client: clients.Title(format), File: p.Path, Server: s.Name, State: FoundNew, entry: s.Entry})
		}
	}
	return all, warnings, nil
}

// isUs reports whether a server is everline itself, which would be its own server:
// an entry that link wrote, or one that starts everline for its client.
func isUs(linked links, format, path string, text []byte, s settings.Imported) bool {
	if key, err := linkKey(path); err == nil {
		if w, ok := linked.find(key, s.Name); ok {
			if found, _ := w.isIn(edit.Members(format, path, text, s.Name)); found {
				return true
			}
		}
	}
	ours, bridge := false, false
	for _, m := range s.Entry {
		switch v := m.Value.(type) {
		case string:
			base := strings.TrimSuffix(filepath.Base(v), ".exe")
			ours = ours || m.Key == "command" && base == "everline"
			if u, err := url.Parse(v); m.Key == "url" && err == nil && s.Name == clients.LinkName && IsLoopback(u.Hostname()) {
				return true // what an everline on another state folder wrote
			}
		case []string:
			bridge = bridge || m.Key == "args" && slices.Contains(v, "stdio")
		}
	}
	return ours && bridge
}

// Copy is the edit that puts servers into a file of ours. A name that is there
// already stays as it is. The edit sets copied to the number of servers.
func Copy(stateDir, to string, all []Found, dryRun bool, copied *int) Edit {
	backup := func([]byte) string { return BackupPath(stateDir, to) }
	return Edit{Path: to, DryRun: dryRun, Backup: backup, Change: func(old []byte) ([]byte, error) {
		if err := editable(to, old); err != nil {
			return nil, err
		}
		text, count := old, 0
		for _, f := range all {
			if f.State == FoundDuplicate || edit.HasServer(clients.Everline, to, text, f.Server) {
				continue
			}
			var err error
			if text, err = edit.SetServer(clients.Everline, to, text, f.Server, f.entry); err != nil {
				return nil, err
			}
			count++
		}
		*copied = count
		return text, nil
	}}
}
