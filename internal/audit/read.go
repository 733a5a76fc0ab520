package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"
)

// A Filter chooses records. Its zero value chooses all.
type Filter struct {
	Server  string
	Type    string
	Outcome string
	Client  string // what the client calls itself, or its proven identity
	Since   time.Time
}

// Matches tells whether the filter chooses a record.
func (f Filter) Matches(r *Record) bool {
	server := ""
	if r.Target != nil {
		server = r.Target.Server
	}
	return (f.Server == "" || f.Server == server) && (f.Type == "" || f.Type == r.Type) && (f.Outcome == "" || f.Outcome == r.Outcome) &&
		(f.Client == "" || f.Client == r.Actor.Name || f.Client == r.Actor.Subject) && !r.Time.Before(f.Since)
}

// followEvery is how often a file is looked at for what was added.
const followEvery = 250 * time.Millisecond

// Read hands the records of a folder to take, in their order, each with its line as
// it stands there. A line that is none is left out; Verify tells of it. With follow
// it goes on with those to come until ctx ends.
func Read(ctx context.Context, folder string, f Filter, follow bool, take func(r *Record, line []byte) error) error {
	in := files{folder}
	var at name
	var offset int64
	for {
		all, err := in.list()
		if err != nil && !(follow && errors.Is(err, fs.ErrNotExist)) {
			return err
		}
		for i, file := range all {
			last := i == len(all)-1
			if c := file.name.compare(at); c < 0 || !last && file.name.day < f.Since.UTC().Format(dayForm) && all[i+1].name.day < f.Since.UTC().Format(dayForm) {
				continue
			} else if c > 0 {
				at, offset = file.name, 0
			}
			if offset, err = readFrom(in.path(at), offset, f, take); err != nil {
				return err
			}
		}
		if !follow {
			return nil
		}
		select {
		case <-time.After(followEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// readFrom reads the whole lines of a file from a place on, and returns where they
// end.
func readFrom(path string, offset int64, f Filter, take func(r *Record, line []byte) error) (int64, error) {
	in, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return offset, nil // it was deleted meanwhile
	}
	if err != nil {
		return offset, err
	}
	defer in.Close()
	if _, err := in.Seek(offset, io.SeekStart); err != nil {
		return offset, err
	}
	lines := bufio.NewReaderSize(in, maxChunk)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil // what has no end may be being written
			}
			return offset, err
		}
		offset += int64(len(line))
		line = bytes.TrimSuffix(line, []byte{'\n'})
		var r Record
		if json.Unmarshal(line, &r) != nil || !f.Matches(&r) {
			continue
		}
		if err := take(&r, line); err != nil {
			return offset, err
		}
	}
}
