package trust

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/conf/tree"
)

// UsualNames are those of a configuration that is found without being named.
var UsualNames = [...]string{"everline.json", "everline.jsonc", "everline.yaml", "everline.toml"}

// Files are the files to read: those that were named, else the first that exists
// of the usual ones.
func Files(named []string) ([]string, error) {
	if len(named) > 0 {
		return named, nil
	}
	usual := UsualNames[:]
	if dir := userFolder(); dir != "" {
		for _, name := range UsualNames {
			usual = append(usual, filepath.Join(dir, name))
		}
	}
	for _, path := range usual {
		if _, err := os.Stat(path); err == nil {
			return []string{path}, nil
		}
	}
	return nil, missing(usual)
}

func missing(tried []string) error {
	return &fault.Fault{
		Kind: fault.Invalid, Op: tree.OpRead, Outcome: fault.NotSent, Remedy: "everline serve --config FILE",
		Err: errors.New("no configuration file was named, and none of these exists: " + strings.Join(tried, ", ")),
	}
}

// userFolder is where the user's own configuration is; "" if that is nowhere.
func userFolder() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "everline")
}

// Texts are the texts of files, each read once: what is checked is then what is
// parsed, whatever becomes of the file meanwhile. A pipe gives its text once.
type Texts map[string][]byte

// Read returns the text of a file.
func (t Texts) Read(path string) ([]byte, error) {
	if text, ok := t[path]; ok {
		return text, nil
	}
	text, err := tree.ReadFile(path)
	if err != nil {
		return nil, err
	}
	t[path] = text
	return text, nil
}

// Load reads and parses files as config does, and refuses those that
// need trust and have none.
func Load(stateDir string, named, files []string, texts Texts, ask config.Ask, format string) (*config.Config, error) {
	if err := Check(stateDir, named, files, texts.Read, nil); err != nil { // before what it names is read
		return nil, err
	}
	cfg, err := config.Options{Format: format, ReadFile: texts.Read, Ask: ask}.Load(files...)
	if err != nil {
		return nil, err
	}
	return cfg, Check(stateDir, named, files, texts.Read, cfg)
}
