package fileedit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/conf/clients"
	"github.com/everline/everline/internal/conf/edit"
	"github.com/everline/everline/internal/conf/tree"
	"github.com/everline/everline/internal/owned"
)

// linksName is the file of the state folder that holds what link has written,
// by the client's file and the name of the server there. Without it nobody
// could tell our entry from one that the user has made.
const linksName = "links.json"

// A written is an entry that link made.
type written struct {
	Members map[string]string `json:"members"` // as edit.Members has them
	// Created says that there was no file before, and Folders which folders were
	// made for it, the outermost first.
	Created bool     `json:"created,omitempty"`
	Folders []string `json:"folders,omitempty"`
	// Token is the id of the token that was made for the client; "" for none.
	Token string `json:"token,omitempty"`
}

// links are the entries of all files.
type links map[string]map[string]written

func readLinks(stateDir string) (links, error) {
	path := filepath.Join(stateDir, linksName)
	data, err := Read(path)
	if err != nil {
		return nil, err
	}
	return parseLinks(path, data)
}

func parseLinks(path string, data []byte) (links, error) {
	all := links{}
	if data == nil {
		return all, nil
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, Fault("read", path, err)
	}
	return all, nil
}

// editLinks changes the record of links. The folder held, if any, is one that
// this process has locked.
func editLinks(stateDir, held string, change func(links)) error {
	if err := owned.MakeFolder(stateDir); err != nil {
		return err
	}
	path := filepath.Join(stateDir, linksName)
	_, err := Edit{Path: path, Held: held, Change: func(old []byte) ([]byte, error) {
		all, err := parseLinks(path, old)
		if err != nil {
			return nil, err
		}
		change(all)
		text, err := json.MarshalIndent(all, "", "  ")
		if err != nil {
			return nil, Fault("write", path, err)
		}
		return append(text, '\n'), nil
	}}.Run()
	return err
}

// find is the entry that link made under a name in a file, by the file's key.
func (l links) find(key, name string) (written, bool) {
	w, ok := l[key][name]
	return w, ok
}

func (l links) set(key, name string, w written) {
	if l[key] == nil {
		l[key] = map[string]written{}
	}
	l[key][name] = w
}

func (l links) remove(key, name string) {
	delete(l[key], name)
	if len(l[key]) == 0 {
		delete(l, key)
	}
}

// isIn reports whether an entry is the one that was written, though a client may
// have added keys to it; exactly tells that none has.
func (w written) isIn(members map[string]string) (found, exactly bool) {
	if len(w.Members) == 0 || members == nil {
		return false, false
	}
	for key, digest := range w.Members {
		if members[key] != digest {
			return false, false
		}
	}
	return true, len(members) == len(w.Members)
}

// unchanged reports whether an entry is the one that was written, and nothing else.
func (w written) unchanged(members map[string]string) bool {
	_, exactly := w.isIn(members)
	return exactly
}

// A Link is the entry for everline in one client's file.
type Link struct {
	stateDir           string
	format, path, name string
	key                string // of the file in known
	known              links
	missing            []string // folders that are still to be made for the file

	// Token is the id of the token that was made for the client, and that its entry
	// shows; "" for none. Put records it.
	Token string
	// Secret says that the entry has a secret in it.
	Secret bool
}

// NewLink reads what is recorded of the entry with this name in a client's file.
func NewLink(stateDir, format, path, name string) (*Link, error) {
	key, err := linkKey(path)
	if err != nil {
		return nil, err
	}
	known, err := readLinks(stateDir)
	w, _ := known.find(key, name)
	return &Link{
		stateDir: stateDir, format: format, path: path, name: name, key: key, known: known,
		missing: missingFolders(filepath.Dir(key)), Token: w.Token,
	}, err
}

// Shown is the token that the entry in the file shows, if it is as link wrote it;
// else "".
func (l *Link) Shown() string {
	text, err := Read(l.path)
	if w, ok := l.known.find(l.key, l.name); err != nil || !ok || !w.unchanged(l.members(text)) {
		return ""
	}
	return edit.Token(l.format, l.path, text, l.name)
}

// linkKey is the path under which a file is recorded, wherever a link leads.
func linkKey(path string) (string, error) {
	key, err := filepath.Abs(Followed(path))
	if err != nil {
		return "", Fault("find", path, err)
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(key)); err == nil { // else it is still to be made
		key = filepath.Join(dir, filepath.Base(key))
	}
	return key, nil
}

// Put is the edit that writes the entry into the file, or replaces the one that
// an earlier Put wrote.
func (l *Link) Put(entry tree.Entry, dryRun bool) Edit {
	return Edit{
		Path: l.path, DryRun: dryRun, Private: l.Secret, Backup: l.backup, Before: l.record,
		Change: func(old []byte) ([]byte, error) { return l.put(old, entry) },
	}
}

// Take is the edit that takes the entry out; it removes a file that Put had made
// and that holds nothing else.
func (l *Link) Take(dryRun bool) Edit {
	return Edit{Path: l.path, DryRun: dryRun, Change: l.take}
}

func (l *Link) members(text []byte) map[string]string {
	return edit.Members(l.format, l.path, text, l.name)
}

// refuse says that an entry stays as it is because link did not write it so.
func (l *Link) refuse(command, remedy string) error {
	return &fault.Fault{
		Kind: fault.Conflict, Op: command + " " + l.format, Outcome: fault.NotSent, Remedy: remedy,
		Err: fmt.Errorf("%s has a server %q that is not as everline link wrote it; nothing was changed", l.path, l.name),
	}
}

func (l *Link) put(old []byte, entry tree.Entry) ([]byte, error) {
	text, err := edit.SetServer(l.format, l.path, old, l.name, entry)
	if err != nil || bytes.Equal(old, text) || !edit.HasServer(l.format, l.path, old, l.name) {
		return text, err
	}
	if w, ok := l.known.find(l.key, l.name); ok {
		if w.unchanged(l.members(old)) {
			return text, nil
		}
	}
	return nil, l.refuse("link", "everline link "+l.format+" --name "+l.name+"-gateway")
}

// record notes what put writes, before it is written.
func (l *Link) record(old, text []byte) error {
	w, again := l.known.find(l.key, l.name)
	w.Members, w.Token = l.members(text), l.Token
	if old == nil {
		w.Created, w.Folders = true, l.missing
	} else if !again {
		w.Created, w.Folders = l.createdBy()
	}
	return editLinks(l.stateDir, filepath.Dir(l.key), func(all links) { all.set(l.key, l.name, w) })
}

// createdBy hands on that another entry of ours made the file.
func (l *Link) createdBy() (bool, []string) {
	for _, w := range l.known[l.key] {
		if w.Created {
			return true, w.Folders
		}
	}
	return false, nil
}

// backup is where the file is kept as it was before it had our entry; "" if it
// has been kept already.
func (l *Link) backup(old []byte) string {
	if edit.HasServer(l.format, l.path, old, l.name) {
		return ""
	}
	return BackupPath(l.stateDir, l.path)
}

func (l *Link) take(old []byte) ([]byte, error) {
	if len(old) == 0 || !edit.HasServer(l.format, l.path, old, l.name) {
		return old, nil
	}
	w, ok := l.known.find(l.key, l.name)
	if found, _ := w.isIn(l.members(old)); !ok || !found {
		return nil, l.refuse("unlink", "take it out by hand, if it is to go")
	}
	text, err := edit.RemoveServer(l.format, l.path, old, l.name)
	if err == nil && w.Created && l.isEmpty(text) {
		return nil, nil
	}
	return text, err
}

// isEmpty reports whether a text is what is left of a new file once our entry is
// taken out, however a client has laid it out since.
func (l *Link) isEmpty(text []byte) bool {
	full, err := edit.SetServer(l.format, l.path, nil, l.name, clients.LinkEntry(l.format, "http://127.0.0.1/mcp", "everline"))
	if err != nil {
		return false
	}
	empty, err := edit.RemoveServer(l.format, l.path, full, l.name)
	return err == nil && strings.Join(strings.Fields(string(empty)), "") == strings.Join(strings.Fields(string(text)), "")
}

// Forget drops the record of an entry that Take took out, and with a file that
// was removed the folders that were made for it, if they are empty by now.
func (l *Link) Forget(taken Result) error {
	w, ok := l.known.find(l.key, l.name)
	if !ok || bytes.Equal(taken.Old, taken.Text) {
		return nil
	}
	removed := taken.Text == nil
	for i := len(w.Folders) - 1; removed && i >= 0; i-- {
		if os.Remove(w.Folders[i]) != nil {
			break // something is in it
		}
	}
	return editLinks(l.stateDir, "", func(all links) { all.remove(l.key, l.name) })
}

// missingFolders are those on the way to a folder that are still to be made,
// the outermost first.
func missingFolders(dir string) []string {
	var missing []string
	for {
		if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) || filepath.Dir(dir) == dir {
			return missing
		}
		missing = append([]string{dir}, missing...)
		dir = filepath.Dir(dir)
	}
}

// GroupURL is the endpoint of a group beside the one of all servers; "" for no
// group. The older form of a group's URL, .../mcp/NAME, becomes the one for
// clients that expect a path to end in /mcp.
func GroupURL(endpoint, group string) string {
	base, named, found := strings.Cut(endpoint, "/mcp/")
	switch {
	case group != "":
		return strings.TrimSuffix(strings.TrimSuffix(endpoint, "/"), "/mcp") + "/groups/" + group + "/mcp"
	case found && named != "" && !strings.Contains(named, "/"):
		return base + "/groups/" + named + "/mcp"
	default:
		return endpoint
	}
}

// IsLoopback reports whether a host is this machine alone.
func IsLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
