package config

// Options say how files are read. The zero value is how Load reads.
type Options struct {
	// Format is that of all files, our own ("everline") or that of a client, like
	// "cursor"; "": what each file looks like. An unknown one is an error of kind
	// fault.Invalid.
	Format string

	ReadFile  func(path string) ([]byte, error)         // gives the text of a configuration file, once for each; nil: from the disk
	Env       func(name string) (value string, ok bool) // looks variables up; nil: in the environment
	Workspace string                                    // the project whose servers count in a user's file of a client; "": for Load the current folder, else none
	Ask       Ask                                       // nil answers none

	References References

	readSide func(folder, path string) (string, error) // a file that a configuration names; nil: from the disk
}

// References says what becomes of ${VAR} and the like in the texts of servers.
type References uint8

const (
	// Resolved references are replaced by what they refer to.
	Resolved References = iota
	// AsWritten leaves every text as it stands, for people who judge what a file
	// starts: no other file is read and no variable looked up.
	AsWritten
	// Kept references stay, in the words of our own format whatever the file's: the
	// texts of a server are then such as our own file would have, and what it has
	// of an envFile is the path.
	Kept
)
