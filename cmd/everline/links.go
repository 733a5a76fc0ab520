package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/owned"
)

// linksName is the file of the state folder that holds what link has written,
// by the client's file and the name of the server there. Without it nobody
// could tell our entry from one that the user has made.
const linksName = "links.json"

// A written is an entry that link made.
type written struct {
	Members map[string]string `json:"members"` // as config.Members has them
	// Created says that there was no file before, and Folders which folders were
	// made for it, the outermost first.
	Created bool     `json:"created,omitempty"`
	Folders []string `json:"folders,omitempty"`
}

// links are the entries of all files.
type links map[string]map[string]written

func (a *app) readLinks() (links, error) {
	path := filepath.Join(a.stateDir, linksName)
	data, err := readEdited(path)
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
		return nil, fileFault("read", path, err)
	}
	return all, nil
}

// editLinks changes what is noted of links. The folder held, if any, is one that
// this process has locked.
func (a *app) editLinks(held string, change func(links)) error {
	if err := owned.MakeFolder(a.stateDir); err != nil {
		return err
	}
	path := filepath.Join(a.stateDir, linksName)
	_, err := edit{path: path, held: held, change: func(was []byte) ([]byte, error) {
		all, err := parseLinks(path, was)
		if err != nil {
			return nil, err
		}
		change(all)
		text, err := json.MarshalIndent(all, "", "  ")
		if err != nil {
			return nil, fileFault("write", path, err)
		}
		return append(text, '\n'), nil
	}}.run()
	return err
}

// of is the entry that link made under a name in a file, by its key.
func (l links) of(key, name string) (written, bool) {
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

// isIn tells whether an entry is the one that was written, though a client may
// have added keys to it; exactly tells that none has.
func (w written) isIn(members map[string]string) (is, exactly bool) {
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

// A linking is the entry of one client's file.
type linking struct {
	app                *app
	format, path, name string
	key                string // of the file in links
	known              links
	missing            []string // folders that are still to be made for the file
}

func (a *app) newLinking(format, path, name string) (*linking, error) {
	if name == "" {
		return nil, usage("--name "+config.LinkName, "the server must have a name")
	}
	key, err := linkKey(path)
	if err != nil {
		return nil, err
	}
	known, err := a.readLinks()
	return &linking{a, format, path, name, key, known, missingFolders(filepath.Dir(key))}, err
}

// linkKey is the path under which a file is noted, wherever a link leads.
func linkKey(path string) (string, error) {
	key, err := filepath.Abs(followed(path))
	if err != nil {
		return "", fileFault("find", path, err)
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(key)); err == nil { // else it is still to be made
		key = filepath.Join(dir, filepath.Base(key))
	}
	return key, nil
}

func (l *linking) members(text []byte) map[string]string {
	return config.Members(l.format, l.path, text, l.name)
}

// refuse says that an entry stays as it is because link did not write it so.
func (l *linking) refuse(command, remedy string) error {
	return &fault.Fault{
		Kind: fault.Conflict, Op: command + " " + l.format, Outcome: fault.NotSent, Remedy: remedy,
		Err: fmt.Errorf("%s has a server %q that is not as everline link wrote it; nothing was changed", l.path, l.name),
	}
}

// link puts an entry into the file, or in the place of one that link wrote.
func (l *linking) link(was []byte, entry config.Entry) ([]byte, error) {
	text, err := config.SetServer(l.format, l.path, was, l.name, entry)
	if err != nil || bytes.Equal(was, text) || !config.HasServer(l.format, l.path, was, l.name) {
		return text, err
	}
	if w, ok := l.known.of(l.key, l.name); ok {
		if _, exactly := w.isIn(l.members(was)); exactly {
			return text, nil
		}
	}
	return nil, l.refuse("link", "everline link "+l.format+" --name "+l.name+"-gateway")
}

// wrote notes what link writes, before it does.
func (l *linking) wrote(was, text []byte) error {
	w, again := l.known.of(l.key, l.name)
	w.Members = l.members(text)
	if was == nil {
		w.Created, w.Folders = true, l.missing
	} else if !again {
		w.Created, w.Folders = l.createdBy()
	}
	return l.app.editLinks(filepath.Dir(l.key), func(all links) { all.set(l.key, l.name, w) })
}

// createdBy hands on that another entry of ours made the file.
func (l *linking) createdBy() (bool, []string) {
	for _, w := range l.known[l.key] {
		if w.Created {
			return true, w.Folders
		}
	}
	return false, nil
}

// backup is where the file is kept as it was before it had our entry; "" for one
// that is kept already.
func (l *linking) backup(was []byte) string {
	if config.HasServer(l.format, l.path, was, l.name) {
		return ""
	}
	return l.app.backupPath(l.path)
}

// unlink takes our entry out; nil is a file in which nothing else is, and that
// link had made.
func (l *linking) unlink(was []byte) ([]byte, error) {
	if len(was) == 0 || !config.HasServer(l.format, l.path, was, l.name) {
		return was, nil
	}
	w, ok := l.known.of(l.key, l.name)
	if is, _ := w.isIn(l.members(was)); !ok || !is {
		return nil, l.refuse("unlink", "take it out by hand, if it is to go")
	}
	text, err := config.RemoveServer(l.format, l.path, was, l.name)
	if err == nil && w.Created && l.isEmpty(text) {
		return nil, nil
	}
	return text, err
}

// isEmpty tells whether a text is what is left of a new file once our entry is
// taken out, however a client has laid it out since.
func (l *linking) isEmpty(text []byte) bool {
	full, err := config.SetServer(l.format, l.path, nil, l.name, config.LinkEntry(l.format, "http://127.0.0.1/mcp", "everline"))
	if err != nil {
		return false
	}
	empty, err := config.RemoveServer(l.format, l.path, full, l.name)
	return err == nil && strings.Join(strings.Fields(string(empty)), "") == strings.Join(strings.Fields(string(text)), "")
}

// unlinked forgets the entry, and with a file that is gone the folders that were
// made for it, if nothing else is in them by now.
func (l *linking) unlinked(gone bool) error {
	w, ok := l.known.of(l.key, l.name)
	if !ok {
		return nil
	}
	for i := len(w.Folders) - 1; gone && i >= 0; i-- {
		if os.Remove(w.Folders[i]) != nil {
			break // something is in it
		}
	}
	return l.app.editLinks("", func(all links) { all.remove(l.key, l.name) })
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
