package audit

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/everline/everline/internal/statelock"
)

// A Verdict is what the files of a folder show about themselves.
type Verdict struct {
	Folder    string     `json:"folder"`
	Files     int        `json:"files"`
	Records   int        `json:"records"`
	First     *time.Time `json:"first"`     // of the records; null where there is none
	Last      *time.Time `json:"last"`      // likewise
	Head      string     `json:"head"`      // the hash of the last line: noted elsewhere, it proves later that nothing up to here was changed
	Found     *bool      `json:"found"`     // whether a line has the hash that was asked for; null where none was
	Intact    bool       `json:"intact"`    // no line was changed or taken out
	Broken    []Finding  `json:"broken"`    // where one was
	Torn      []Finding  `json:"torn"`      // lines without an end: everline or the machine was ended while they were written
	Lost      uint64     `json:"lost"`      // records that could not be written, as the record itself says
	Killed    int        `json:"killed"`    // runs of everline that have no end
	Unchained int        `json:"unchained"` // records without a hash of the line before
	Pruned    bool       `json:"pruned"`    // older records were deleted, as the bounds say
	Open      bool       `json:"open"`      // an everline writes to it now
}

// A Finding is a place in a file, and what is to be said of it.
type Finding struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

func (f Finding) String() string { return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Text) }

// maxFindings bounds how many places are named.
const maxFindings = 100

// Verify reads all files of a folder, and compares each line with what the next one
// says of it. has is a hash to look for; "" for none.
func Verify(folder, has string) (Verdict, error) {
	v := verifier{Verdict: Verdict{Folder: folder, Broken: []Finding{}, Torn: []Finding{}}, has: has, open: map[string]bool{}}
	if has != "" {
		v.Found = new(bool)
	}
	v.Open = isHeld(filepath.Join(folder, lockName))
	in := files{folder}
	all, err := in.list()
	if err != nil {
		return v.Verdict, err
	}
	err = v.files(in, all)
	return v.Verdict, err
}

// VerifyNewest is Verify for the newest file alone: what was before it is not looked
// at.
func VerifyNewest(folder string) (Verdict, error) {
	v := verifier{Verdict: Verdict{Folder: folder, Broken: []Finding{}, Torn: []Finding{}}, open: map[string]bool{}, newest: true}
	v.Open = isHeld(filepath.Join(folder, lockName))
	in := files{folder}
	all, err := in.list()
	if err == nil && len(all) > 0 {
		err = v.files(in, all[len(all)-1:])
	}
	return v.Verdict, err
}

func (v *verifier) files(in files, all []file) error {
	for _, f := range all {
		if err := v.file(in.path(f.name), f.name); err != nil {
			return err
		}
	}
	v.finish()
	return nil
}

// isHeld tells whether an everline has the lock of a folder.
func isHeld(path string) bool {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close() // which gives back what Try has taken
	return errors.Is(statelock.Try(f), statelock.ErrHeld)
}

// A verifier goes through the lines in their order.
type verifier struct {
	Verdict
	has    string
	newest bool // the files before the first are not looked at
	name   string
	line   int

	last  [sha256.Size]byte
	begun bool
	torn  bool            // the line before has no end
	start string          // what the first line says was before it
	gone  []string        // hashes of the last lines of files that were deleted
	run   string          // of the record before
	seq   uint64          // likewise
	open  map[string]bool // runs that have begun and not ended
}

func (v *verifier) broken(text string) {
	if len(v.Broken) < maxFindings {
		v.Broken = append(v.Broken, Finding{v.name, v.line, text})
	}
}

func (v *verifier) file(path string, n name) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	v.Files++
	v.name, v.line = n.String(), 0
	lines := bufio.NewReaderSize(in, maxChunk)
	for {
		line, err := lines.ReadBytes('\n')
		v.line++
		switch {
		case err == nil:
			v.take(bytes.TrimSuffix(line, []byte{'\n'}))
		case !errors.Is(err, io.EOF):
			return err
		case len(line) > 0:
			v.tear(line)
			return nil
		default:
			return nil
		}
	}
}

// tear takes a line without an end.
func (v *verifier) tear(line []byte) {
	v.expectWhole()
	v.Torn = append(v.Torn, Finding{v.name, v.line, fmt.Sprintf("the line ends after %d bytes", len(line))})
	v.last, v.torn, v.begun = sha256.Sum256(line), true, true
}

// expectWhole: behind a torn line comes the record that says so.
func (v *verifier) expectWhole() {
	if v.torn {
		v.broken("the line before has no end, and the record goes on as if it had")
	}
	v.torn = false
}

func (v *verifier) take(line []byte) {
	var r Record
	if err := json.Unmarshal(line, &r); err != nil || r.V == 0 {
		v.expectWhole()
		v.broken("the line is no record")
		v.last, v.begun = sha256.Sum256(line), true
		return
	}
	if r.Type != TypeSystem || r.Action != Torn {
		v.expectWhole()
	}
	v.torn = false
	v.chain(&r)
	v.number(&r)
	v.count(&r)
	v.last, v.begun = sha256.Sum256(line), true
	if v.Found != nil && hashText(v.last) == v.has {
		*v.Found = true
	}
}

// chain compares the line before with what the record says of it.
func (v *verifier) chain(r *Record) {
	switch {
	case r.Prev == "":
		v.Unchained++
	case !v.begun:
		v.start = r.Prev
	case r.Prev != hashText(v.last):
		v.broken("the line before is not the one that this one was written behind: it was changed, or lines were taken out or put in")
	}
}

// number compares the record's number with that of the record before, of the same
// run. It shows what is missing where there is no chain.
func (v *verifier) number(r *Record) {
	run, number, _ := strings.Cut(r.ID, "-")
	seq, err := strconv.ParseUint(number, 10, 64)
	switch {
	case err != nil:
		v.broken("the record has no number")
	case run == v.run && seq != v.seq+1:
		v.broken(fmt.Sprintf("record %d of the run %s follows record %d", seq, run, v.seq))
	case run != v.run && seq != 1 && v.Records > 0:
		v.broken(fmt.Sprintf("the run %s begins with record %d", run, seq))
	}
	v.run, v.seq = run, seq
}

func (v *verifier) count(r *Record) {
	v.Records++
	if v.First == nil {
		v.First = &r.Time
	}
	v.Last = &r.Time
	if r.Type != TypeSystem {
		return
	}
	switch r.Action {
	case Start:
		v.open[v.run] = true
	case Stop:
		delete(v.open, v.run)
	case Lost:
		v.Lost += r.Count
	case Pruned:
		v.Pruned = true
		if r.Change != nil {
			v.gone = append(v.gone, r.Change.Was)
		}
	}
}

func (v *verifier) finish() {
	if v.begun {
		v.Head = hashText(v.last)
	}
	if v.torn && v.Open {
		v.Torn = v.Torn[:len(v.Torn)-1] // it is being written
	}
	v.Killed = len(v.open)
	if v.Open && v.open[v.run] {
		v.Killed--
	}
	explained := v.newest || v.start == "" || v.start == hashText([sha256.Size]byte{})
	for _, was := range v.gone {
		explained = explained || v.start == was
	}
	if !explained {
		v.Broken = append(v.Broken, Finding{"", 0, "the records before the first one are missing, and no record says that they were deleted"})
	}
	v.Intact = len(v.Broken) == 0 && (v.Found == nil || *v.Found)
}
