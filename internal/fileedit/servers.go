package fileedit

import (
	"errors"
	"fmt"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/conf/clients"
	"github.com/everline/everline/internal/conf/edit"
	"github.com/everline/everline/internal/conf/tree"
	"github.com/everline/everline/internal/typed"
)

// AddServer puts a server into the text of a configuration file. It fails if
// the name is taken, unless force is set, and if everline could not read the
// result. The warning is "" for none.
func AddServer(path string, old []byte, name string, entry tree.Entry, force bool) (text []byte, warning string, err error) {
	if err := editable(path, old); err != nil {
		return nil, "", err
	}
	if edit.HasServer(clients.Everline, path, old, name) && !force {
		return nil, "", &fault.Fault{
			Kind: fault.Conflict, Op: "add " + name, Outcome: fault.NotSent, Err: fmt.Errorf("%s has a server of that name", path),
			Remedy: "everline add --force replaces it",
		}
	}
	if text, err = edit.SetServer(clients.Everline, path, old, name, entry); err != nil {
		return nil, "", err
	}
	if err := stillGood(path, text, name); err != nil {
		return nil, "", err
	}
	return text, plainWarning(path, text, name), nil
}

// plainWarning is about secrets that an entry has in plain text; "" for none.
func plainWarning(path string, text []byte, name string) string {
	written, err := config.Options{References: config.AsWritten}.Parse(path, text)
	if err != nil {
		return ""
	}
	s, _ := written.Server(name)
	if w, plain := s.PlainWarning("whoever reads the file has it"); plain {
		return w.String()
	}
	return ""
}

// RemoveServers takes servers out of the text of a configuration file.
func RemoveServers(path string, old []byte, names []string) (text []byte, err error) {
	if err := editable(path, old); err != nil {
		return nil, err
	}
	if old == nil {
		return nil, &fault.Fault{
			Kind: fault.NotFound, Op: "edit " + path, Outcome: fault.NotSent, Err: errors.New("there is no such file"),
			Remedy: "check the path, or name another file with --config",
		}
	}
	text = old
	for _, name := range names {
		if text, err = edit.RemoveServer(clients.Everline, path, text, name); err != nil {
			return nil, suggestServer(err, path, old, name)
		}
	}
	return text, nil
}

// editable refuses a client's own file, which add and remove may not change.
func editable(path string, old []byte) error {
	if len(old) == 0 {
		return nil
	}
	format, err := clients.Detect(path, old)
	if err != nil || format == clients.Everline {
		return err
	}
	return &fault.Fault{
		Kind: fault.Invalid, Op: "edit " + path, Outcome: fault.NotSent,
		Err:    fmt.Errorf("the file is one of %s", clients.Title(format)),
		Remedy: "change it there, or copy it first: everline import " + path + " --to everline.json",
	}
}

// stillGood reads the text that an edit made as serve will. A variable that is
// not set here may be set where everline runs.
func stillGood(path string, text []byte, name string) error {
	anything := func(string) (string, bool) { return "set", true }
	cfg, err := config.Parse(path, text, anything)
	if err != nil {
		return err
	}
	if s, ok := cfg.Server(name); ok && s.Err != nil {
		return s.Err
	}
	return nil
}

// suggestServer adds the name that was probably meant.
func suggestServer(err error, path string, data []byte, name string) error {
	f := fault.From("", err)
	cfg, parseErr := config.Parse(path, data, nil)
	if f.Kind != fault.NotFound || parseErr != nil {
		return err
	}
	var names []string
	for _, s := range cfg.Servers {
		names = append(names, s.Name)
	}
	if near := typed.Nearest(name, names); near != "" {
		f.Remedy = "did you mean " + near + "?"
	}
	return f
}
