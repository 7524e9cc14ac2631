// Package outfile writes files for the user. A file is there completely or not at all. [Write] gives it the mode that the user's
// umask and the folder give to new files, [WriteNew] one that only the user can read.
package outfile

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Write replaces the file name by what write writes. After an error there is no new file, and an old one is unchanged.
func Write(name string, write func(*os.File) error) error {
	// os.CreateTemp would make a file of mode 0600, and the umask cannot be read without changing it for all goroutines.
	temporary := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+"."+rand.Text()[:10])
	f, err := os.OpenFile(temporary, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Close())
	if err == nil {
		err = os.Rename(temporary, name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return nil
}

// WriteNew writes a file that only its owner can read. It returns an error that wraps [fs.ErrExist] if there is a file with this
// name already. After an error there is no new file.
func WriteNew(name string, write func(*os.File) error) error {
	if _, err := os.Lstat(name); err == nil {
		return &fs.PathError{Op: "write", Path: name, Err: fs.ErrExist} // before the content is made
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*") // of mode 0600
	if err != nil {
		return err
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	err = os.Link(f.Name(), name) // unlike os.Rename it never replaces a file
	if err == nil || errors.Is(err, fs.ErrExist) {
		return errors.Join(err, os.Remove(f.Name()))
	}
	// The file system has no hard links. A file that another process makes just now would be replaced.
	if _, err = os.Lstat(name); err == nil {
		err = &fs.PathError{Op: "write", Path: name, Err: fs.ErrExist}
	} else {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
