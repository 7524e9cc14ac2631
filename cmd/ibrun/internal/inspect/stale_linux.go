package inspect

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"golang.org/x/sys/unix"
)

// staleAfter is how old a socket is at least that removeStale looks at. A younger one may not accept connections yet.
const staleAfter = time.Minute

// removeStale removes the sockets of jobs from a directory whose ibrun was killed together with its watcher, which would have
// removed them.
func removeStale(dir string) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return // another job has removed it
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil || info.Mode().Type() != fs.ModeSocket || time.Since(info.ModTime()) < staleAfter ||
			!isSocketName(f.Name()) {
			continue
		}
		path := filepath.Join(dir, f.Name())
		c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"}) // does not block
		if err == nil {
			c.Close()
		} else if errors.Is(err, unix.ECONNREFUSED) {
			_ = os.Remove(path) // another job may have removed it
		}
	}
}

// isSocketName reports whether a name can be that of the socket of a job: see socketPath. It is called for old files only, so the
// start of a job does not compile the expression.
func isSocketName(name string) bool {
	return regexp.MustCompile(`^[a-z0-9]+-[0-9]+(\.new)?$`).MatchString(name)
}
