package config

import (
	"crypto/sha256"
	"path/filepath"
)

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
