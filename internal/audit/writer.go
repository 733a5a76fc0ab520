package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/everline/everline/config"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/owned"
	"github.com/everline/everline/internal/statelock"
)

// A writer writes what a Log has queued. It is one goroutine's.
type writer struct {
	log   *Log
	files files
	lock  *os.File // held open while the folder is ours
	file  *os.File // that lines go to; nil where there is none
	at    name     // its name
	size  int64
	total int64 // of all files
	buf   bytes.Buffer

	last  [sha256.Size]byte // hash of the line that was written last
	seq   uint64            // of the record that was written last
	own   []*Record         // about the record itself; they come before what is queued
	dirty bool              // something is written that the disk may not have
}

// run writes until the Log is closed.
func (w *writer) run() {
	l := w.log
	flush, settle := time.NewTimer(flushAfter), time.NewTimer(syncAfter)
	due, armed, settling := false, true, true
	for {
		select {
		case <-l.wake:
		case <-flush.C:
			due, armed = true, false
		case <-settle.C:
			settling = false
			w.sync()
		}
		l.mu.Lock()
		n, hurry, durable, closing := len(l.queue), l.hurry, l.durable, l.closing
		l.hurry, l.durable = false, false
		l.mu.Unlock()
		wait := flushAfter
		if due || hurry || closing || n >= flushAt && l.trouble.now() == nil {
			due = false
			if w.flush() != nil {
				wait = retryAfter
			}
		}
		if durable || closing {
			w.sync()
		}
		if closing {
			w.close()
			return
		}
		if w.dirty && !settling {
			settle.Reset(syncAfter)
			settling = true
		}
		if !armed && w.waiting() {
			flush.Reset(wait)
			armed = true
		}
	}
}

// waiting tells whether there is something to write.
func (w *writer) waiting() bool {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	return len(w.log.queue) > 0 || w.log.missing > 0 || len(w.own) > 0 || w.log.refusals.rest != nil
}

// flush writes what is queued, as far as that goes.
func (w *writer) flush() error {
	l := w.log
	l.mu.Lock()
	l.refusals.passLocked(l, time.Now())
	batch, missing := l.queue, l.missing
	l.mu.Unlock()
	if len(batch) == 0 && missing == 0 && len(w.own) == 0 {
		return nil
	}
	err := w.ready()
	n := 0
	if err == nil {
		n, err = w.writeAll(batch)
	}
	if err == nil && missing > 0 {
		lost := &Record{Time: time.Now(), Type: TypeSystem, Action: Lost, Outcome: Failed, Actor: Actor{Kind: System}, Count: missing}
		if _, err = w.writeAll([]*Record{lost}); err != nil {
			missing = 0
		}
	}
	if err != nil {
		missing = 0
	}
	l.trouble.note("the audit record cannot be written", err)
	l.mu.Lock()
	l.queue = append(l.queue[:0:0], l.queue[n:]...)
	l.done += uint64(n)
	l.missing -= missing
	l.tellLocked()
	l.mu.Unlock()
	return err
}

func (l *Log) tellLocked() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// sync has the disk take what is written.
func (w *writer) sync() {
	l := w.log
	if w.dirty && w.file != nil {
		if err := w.file.Sync(); err != nil {
			l.trouble.note("the disk does not take the audit record", err)
			w.drop()
			w.dirty = false
			return
		}
	}
	w.dirty = false
	l.mu.Lock()
	l.synced = l.done
	l.tellLocked()
	l.mu.Unlock()
}

// ready makes sure that there is a file to write to, and that it is still the one
// at its place.
func (w *writer) ready() error {
	if w.files.folder == "" {
		return nil
	}
	if w.file != nil {
		if isAt(w.file, w.files.path(w.at)) {
			return w.turn()
		}
		w.drop()
	}
	return w.open()
}

// open takes the folder, and goes on where the newest file ends. A file whose last
// line is torn stays as it is.
func (w *writer) open() error {
	if w.files.folder == "" {
		return nil
	}
	if err := w.take(); err != nil {
		return err
	}
	all, err := w.files.list()
	if err != nil {
		return err
	}
	w.total = 0
	for _, f := range all {
		w.total += f.size
	}
	newest, end, found, err := w.files.newest(all)
	if err != nil {
		return err
	}
	today := time.Now().UTC().Format(dayForm)
	if !found {
		return w.begin(name{}.next(today))
	}
	w.last = end.sum
	switch {
	case end.torn > 0:
		if err := w.begin(newest.name.next(today)); err != nil {
			return err
		}
		torn := &Record{
			Time: time.Now(), Type: TypeSystem, Action: Torn, Outcome: Failed, Actor: Actor{Kind: System},
			Cause: fmt.Sprintf("the last line of %s ends after %d bytes", newest.name, end.torn),
		}
		w.own = append([]*Record{torn}, w.own...) // right behind it
		return nil
	case newest.name.day < today || newest.size >= w.maxFile():
		return w.begin(newest.name.next(today))
	default:
		return w.begin(newest.name)
	}
}

const (
	lockWait = 2 * time.Second // for a command that has just something to tell
	lockLook = 20 * time.Millisecond
)

// openFirst is open where another process may be about to leave the folder.
func (w *writer) openFirst() error {
	for end := time.Now().Add(lockWait); ; time.Sleep(lockLook) {
		err := w.open()
		if err == nil || fault.KindOf(err) != fault.Conflict || time.Now().After(end) {
			return err
		}
	}
}

// take makes the folder this Log's alone, for as long as the process runs.
func (w *writer) take() error {
	if err := owned.MakeFolder(w.files.folder); err != nil {
		return err
	}
	path := filepath.Join(w.files.folder, lockName)
	if w.lock != nil && isAt(w.lock, path) {
		return nil
	}
	lock, err := owned.Open(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := statelock.Try(lock); err != nil {
		_ = lock.Close() // nothing was written
		if errors.Is(err, statelock.ErrHeld) {
			return &fault.Fault{
				Kind: fault.Conflict, Op: "open the audit record", Err: fmt.Errorf("the folder %s is in use: it is the record of another everline", w.files.folder),
				Remedy: "name another folder in audit.path",
			}
		}
		return err
	}
	if w.lock != nil {
		_ = w.lock.Close() // of a folder that is no more
	}
	w.lock = lock
	return nil
}

// isAt tells whether an open file is the one at a path.
func isAt(f *os.File, path string) bool {
	here, err := f.Stat()
	there, err2 := os.Stat(path)
	return err == nil && err2 == nil && os.SameFile(here, there)
}

// begin opens a file to go on with, or a new one.
func (w *writer) begin(n name) error {
	f, err := owned.Open(w.files.path(n), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Size() == 0 {
		err = owned.SyncFolder(w.files.folder)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return err
	}
	w.file, w.at, w.size = f, n, info.Size()
	w.prune()
	return nil
}

// maxFile is how large a file becomes: several always fit into the bound of all.
func (w *writer) maxFile() int64 {
	s := w.log.settings()
	return min(s.MaxFile, s.MaxTotal/4)
}

// maxChunk is how much is written at a time.
const maxChunk = 64 << 10

// writeAll writes what is about the record itself and then these, and returns how
// many of these are written.
func (w *writer) writeAll(batch []*Record) (written int, err error) {
	for len(w.own)+len(batch)-written > 0 {
		own, n := 0, 0
		last, seq := w.last, w.seq
		w.buf.Reset()
		for w.buf.Len() < maxChunk && (own < len(w.own) || written+n < len(batch)) {
			r := (*Record)(nil)
			if own < len(w.own) {
				r, own = w.own[own], own+1
			} else {
				r, n = batch[written+n], n+1
			}
			seq++
			last = w.encode(r, seq, last)
		}
		if err := w.put(w.buf.Bytes()); err != nil {
			return written, err
		}
		w.last, w.seq = last, seq
		written += n
		w.own = w.own[own:]
		if err := w.turn(); err != nil {
			return written, err
		}
	}
	return written, nil
}

// encode puts the line of a record behind the others, and returns its hash.
func (w *writer) encode(r *Record, seq uint64, prev [sha256.Size]byte) [sha256.Size]byte {
	line := *r
	line.clean(w.log.o.Hide)
	line.V, line.ID, line.Time = Version, w.log.o.Run+"-"+strconv.FormatUint(seq, 10), r.Time.UTC().Truncate(time.Microsecond)
	if w.log.settings().Chain {
		line.Prev = hashText(prev)
	}
	begin := w.buf.Len()
	enc := json.NewEncoder(&w.buf) // it ends the line
	enc.SetEscapeHTML(false)
	_ = enc.Encode(&line) // all of it can be encoded
	return sha256.Sum256(w.buf.Bytes()[begin : w.buf.Len()-1])
}

// put writes lines. What has not become whole is taken back; where that cannot be
// either, the next file says so.
func (w *writer) put(lines []byte) error {
	if w.files.folder == "" {
		_, err := w.log.o.Out.Write(lines)
		return err
	}
	n, err := w.file.Write(lines)
	if err != nil {
		if n > 0 {
			_ = w.file.Truncate(w.size) // see above
		}
		w.drop()
		return err
	}
	w.size += int64(n)
	w.total += int64(n)
	w.dirty = true
	return nil
}

// turn goes on to the next file where this one is full or of another day.
func (w *writer) turn() error {
	if w.file == nil {
		return nil
	}
	today := time.Now().UTC().Format(dayForm)
	if w.size < w.maxFile() && today <= w.at.day {
		if w.total > w.log.settings().MaxTotal {
			w.prune()
		}
		return nil
	}
	err := w.file.Sync()
	w.drop()
	if err != nil {
		return err
	}
	return w.begin(w.at.next(today))
}

// prune deletes the oldest files while there are more, or older ones, than are to
// be kept.
func (w *writer) prune() {
	s := w.log.settings()
	all, err := w.files.list()
	if err != nil {
		return // the next file tries it again
	}
	oldest := time.Now().UTC().Add(-s.KeepFor).Format(dayForm)
	gone := &Record{Time: time.Now(), Type: TypeSystem, Action: Pruned, Outcome: OK, Actor: Actor{Kind: System}, Change: &Change{}}
	for _, f := range all {
		if f.name == w.at || w.total <= s.MaxTotal && f.name.day >= oldest {
			break
		}
		end, err := w.files.tail(f.name)
		if err == nil {
			err = os.Remove(w.files.path(f.name))
		}
		if err != nil {
			w.log.trouble.warn("an old file of the audit record stays", err)
			break
		}
		w.total -= f.size
		if f.size > 0 {
			gone.Change.Was = hashText(end.sum)
		}
		gone.Change.Files = append(gone.Change.Files, f.name.String())
	}
	if len(gone.Change.Files) > 0 {
		w.own = append(w.own, gone)
	}
}

// drop gives the file up; the next one is opened when there is something to write.
func (w *writer) drop() {
	if w.file != nil {
		_ = w.file.Close() // what was to be told, write or Sync has told
		w.file = nil
	}
}

// close ends the writer. What is queued still is lost.
func (w *writer) close() {
	l := w.log
	l.mu.Lock()
	left := uint64(len(l.queue)) + l.missing
	l.lost.Add(uint64(len(l.queue)))
	l.queue = nil
	l.mu.Unlock()
	if left > 0 && l.settings().Level != config.AuditOff {
		l.trouble.note("the audit record is not complete", fmt.Errorf("%d records are lost", left))
	}
	w.drop()
	if w.lock != nil {
		_ = w.lock.Close() // which gives it back
	}
}
