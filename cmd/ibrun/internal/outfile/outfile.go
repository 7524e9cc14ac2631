// Package outfile writes files for the user. A file has the mode that the user's umask and the folder give to new files, and it
// is there completely or not at all.
package outfile

import (
	"crypto/rand"
	"errors"
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
