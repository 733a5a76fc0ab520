package config

import (
	"crypto/sha256"
	"os"
	"path/filepath"

	"github.com/everline/everline/internal/conf/redact"
)

// Written reads a text as Load does the file, but leaves every reference as it
// stands there: for people who judge what the file starts. No other file is
// read and no variable looked up. Only credentials in URLs and the values of
// their queries are replaced by "***"; nothing hides a part of a command.
func Written(file string, data []byte) (*Config, error) {
	cfg, err := asItStands(file, data)
	if err != nil {
		return nil, err
	}
	for i := range cfg.Servers {
		s := &cfg.Servers[i]
		s.URL, s.MessageURL = redact.URL(s.URL), redact.URL(s.MessageURL)
	}
	return cfg, nil
}

func asItStands(file string, data []byte) (*Config, error) {
	b := newBuilder(nil)
	b.written = true
	if dir, err := os.Getwd(); err == nil {
		b.workspace = dir
	}
	if f := b.add(file, data); f != nil {
		return nil, f
	}
	return b.cfg, nil
}

// A SideFile is a file that was read because a configuration file names it: as
// an envFile, or by ${file:path}.
type SideFile struct {
	File   string            // the configuration file
	Named  string            // the path as it stands there, from the folder of File
	Server string            // that it was read for; "" for a setting of the whole
	Digest [sha256.Size]byte // of the text that was taken
}

// SideFiles are those that were read for this Config, in the order of reading.
func (c *Config) SideFiles() []SideFile { return c.sides }

// Path is where the file is.
func (f SideFile) Path() string {
	if filepath.IsAbs(f.Named) {
		return f.Named
	}
	return filepath.Join(filepath.Dir(f.File), f.Named)
}
