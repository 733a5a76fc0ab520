package trust

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// markers are what a folder has that is the top of a repository.
var markers = []string{".git", ".hg", ".jj", ".svn", ".bzr"}

// A project is what a file came with: a repository, or a folder.
type project struct {
	folder     string
	repository bool
}

// projects are those that a file belongs to: by the path to it, which may have
// links in it, and by the place where these lead.
func projects(path string) ([]project, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	all := []project{projectOf(filepath.Dir(abs))}
	key, err := keyOf(path)
	switch {
	case err == nil:
		all = append(all, projectOf(filepath.Dir(key)))
	case !errors.Is(err, fs.ErrNotExist): // in a folder that is not there yet
		return nil, err
	}
	return all, nil
}

// projectOf is the repository around a folder, or the folder where there is none.
func projectOf(dir string) project {
	for folder, below := dir, ""; folder != below; below, folder = folder, filepath.Dir(folder) {
		for _, name := range markers {
			if _, err := os.Lstat(filepath.Join(folder, name)); err == nil {
				return project{folder, true}
			}
		}
	}
	return project{dir, false}
}

// FromRepository reports whether a file is in a repository.
func FromRepository(path string) bool {
	all, err := projects(path)
	return err != nil || slices.ContainsFunc(all, func(p project) bool { return p.repository })
}

// inUserFolder reports whether the user has put a file into the folder for their
// own ones, even as a link to somewhere else.
func inUserFolder(path string) bool {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err == nil { // the working folder may have been come to through a link
		dir, err = filepath.EvalSymlinks(dir)
	}
	own, ownErr := filepath.EvalSymlinks(userFolder())
	return err == nil && ownErr == nil && dir == own
}
