package audit

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	filePrefix = "audit-"
	fileSuffix = ".jsonl"
	dayForm    = "2006-01-02" // UTC
	lockName   = "audit.lock"
)

// A name is that of one file: the day on which it was begun, and its number on
// that day, from 1.
type name struct {
	day string
	n   int
}

func (n name) String() string {
	if n.n == 1 {
		return filePrefix + n.day + fileSuffix
	}
	return filePrefix + n.day + "." + strconv.Itoa(n.n) + fileSuffix
}

func parseName(file string) (n name, ok bool) {
	rest, isOurs := strings.CutPrefix(file, filePrefix)
	rest, isFile := strings.CutSuffix(rest, fileSuffix)
	day, number, several := strings.Cut(rest, ".")
	n = name{day, 1}
	if several {
		n.n, _ = strconv.Atoi(number) // the comparison below finds what is no number
	}
	_, err := time.Parse(dayForm, day)
	return n, isOurs && isFile && err == nil && n.String() == file
}

func (n name) compare(o name) int { return cmp.Or(cmp.Compare(n.day, o.day), cmp.Compare(n.n, o.n)) }

// next is the file after this one, on a day: a clock that was set back does not
// bring an earlier file.
func (n name) next(day string) name {
	if day > n.day {
		return name{day, 1}
	}
	return name{n.day, n.n + 1}
}

type file struct {
	name name
	size int64
}

// files are those of one folder.
type files struct{ folder string }

func (f files) path(n name) string { return filepath.Join(f.folder, n.String()) }

// list has all files, the oldest first.
func (f files) list() ([]file, error) {
	entries, err := os.ReadDir(f.folder)
	if err != nil {
		return nil, err
	}
	var all []file
	for _, e := range entries {
		n, ok := parseName(e.Name())
		info, err := e.Info()
		if ok && err == nil && info.Mode().IsRegular() {
			all = append(all, file{n, info.Size()})
		}
	}
	slices.SortFunc(all, func(a, b file) int { return a.name.compare(b.name) })
	return all, nil
}

// A tail is how a file ends.
type tail struct {
	sum  [sha256.Size]byte // of the last line, without its end
	torn int               // bytes of that line, where it has no end
}

// maxLine is more bytes than a line has.
const maxLine = 256 << 10

func (f files) tail(n name) (t tail, err error) {
	in, err := os.Open(f.path(n))
	if err != nil {
		return t, err
	}
	defer in.Close()
	size, err := in.Seek(0, io.SeekEnd)
	if err != nil {
		return t, err
	}
	window := make([]byte, min(size, maxLine))
	if _, err := in.ReadAt(window, size-int64(len(window))); err != nil && !errors.Is(err, io.EOF) {
		return t, err
	}
	line, whole := bytes.CutSuffix(window, []byte{'\n'})
	line = line[bytes.LastIndexByte(line, '\n')+1:]
	t.sum = sha256.Sum256(line)
	if !whole {
		t.torn = len(line)
	}
	return t, nil
}

// newest is the last file that has something in it, and how it ends; ok is false
// where there is none.
func (f files) newest(all []file) (last file, t tail, ok bool, err error) {
	for _, candidate := range slices.Backward(all) {
		if candidate.size > 0 {
			t, err = f.tail(candidate.name)
			return candidate, t, true, err
		}
	}
	return file{}, tail{}, false, nil
}

// hashText is a hash as it is written.
func hashText(sum [sha256.Size]byte) string { return "sha256:" + hex.EncodeToString(sum[:]) }

// Hash is the hash of a text as a record has it.
func Hash(text []byte) string { return hashText(sha256.Sum256(text)) }
