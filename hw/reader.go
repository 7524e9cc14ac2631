package hw

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Package prometheus/procfs reads some of these files as well. It is not used here for three reasons. It requires the path of a
// mounted sysfs; this package accepts any fs.FS, so that archives, trees in memory and this machine use the same code and are
// tested against each other. If a file of one device cannot be read, it returns no device at all; this package returns each
// device with the fields that could be read, and the reason. And it has neither the PUs near a device, nor GIDs, nor caches and
// NUMA nodes.

// maxFile is the limit for the text of one file, in bytes. The kernel writes at most a page into most files of sysfs.
// Only lists of PUs and the tables of /proc are longer.
const maxFile = 64 << 10

// fileReader is implemented by trees that read a whole file faster than through fs.FS. The implementation enforces
// maxFile itself.
type fileReader interface {
	readFile(name string) (string, error)
}

// readFile reads a file. It refuses files that the kernel would not write: those longer than maxFile, and those that are
// not regular files.
func readFile(fsys fs.FS, name string) (string, error) {
	if tree, ok := fsys.(fileReader); ok {
		return tree.readFile(name)
	}
	data, err := readHead(fsys, name, maxFile+1)
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%w: longer than %d bytes", ErrMalformed, maxFile)
	}
	return string(data), err
}

// readHead reads up to limit bytes of a file.
func readHead(fsys fs.FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // the file was only read, so an error loses no data
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: not a regular file", ErrMalformed)
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// reader reads the files of a tree. After a file that cannot be read it continues and appends a message to problems.
// With failFast it also stores the first error in err.
type reader struct {
	fsys       fs.FS
	parsedSets map[setKey][]int // by the text of the file
	setMembers int              // sum of the sizes of all sets
	problems   []string
	failFast   bool
	err        error
}

// maxSetMembers bounds the sum of the sizes of all parsed sets. A text of seven characters can describe a set of
// thousands.
const maxSetMembers = 1 << 22

// setKey identifies a parsed set: the text of the file, and whether the text is a mask or a list.
type setKey struct {
	text string
	mask bool
}

// parseFile reads a file and returns the result of parse, or the zero value.
func parseFile[T any](r *reader, name string, parse func(string) (T, error)) T {
	text, ok := r.readText(name)
	if !ok {
		var zero T
		return zero
	}
	v, err := parse(text)
	r.addProblem(name, err)
	return v
}

// readInt returns the number in a file, or otherwise without a valid one.
func (r *reader) readInt(name string, otherwise int) int {
	text, ok := r.readText(name)
	if !ok {
		return otherwise
	}
	n, err := parseInt(text)
	r.addProblem(name, err)
	if err != nil {
		return otherwise
	}
	return n
}

// readUint returns the number of at most bits bits in a file, or 0.
func (r *reader) readUint(name string, bits int) uint64 {
	return parseFile(r, name, func(text string) (uint64, error) { return parseUint(text, bits) })
}

// readList returns the set of numbers in a file, ascending.
func (r *reader) readList(name string) ([]int, bool) { return r.readSetFile(name, false) }

// readSet reads the first of these files that exists. It is a list if its name ends in "list", otherwise a mask.
func (r *reader) readSet(dir string, names ...string) (ids []int, ok bool) {
	for _, name := range names {
		if ids, ok = r.readSetFile(dir+name, !strings.HasSuffix(name, "list")); ok {
			return ids, true
		}
	}
	return nil, false
}

// readSetFile reads one set. Many files of the kernel have the same text; the sets of equal texts share memory.
func (r *reader) readSetFile(name string, mask bool) ([]int, bool) {
	text, ok := r.readText(name)
	if !ok {
		return nil, false
	}
	known := setKey{text, mask}
	if ids, ok := r.parsedSets[known]; ok {
		return ids, true
	}
	parse := parseList
	if mask {
		parse = parseMask
	}
	ids, err := parse(text)
	if r.setMembers += len(ids); err == nil && r.setMembers > maxSetMembers {
		err = fmt.Errorf("%w: sets of more than %d numbers in all", ErrMalformed, maxSetMembers)
	}
	r.addProblem(name, err)
	if err == nil {
		if r.parsedSets == nil {
			r.parsedSets = map[setKey][]int{}
		}
		r.parsedSets[known] = ids
	}
	return ids, err == nil
}

// readText returns the text of a file. It returns false if the file does not exist or the kernel has no value for it.
// The kernel returns EINVAL for an empty entry of a table and for a counter that the hardware lacks.
func (r *reader) readText(name string) (string, bool) {
	data, err := readFile(r.fsys, name)
	if notProvided(err) {
		return "", false
	}
	r.addProblem(name, err)
	return strings.TrimRight(data, "\x00"), err == nil // some tools that copy trees append the NUL of a C string
}

// notProvided reports whether the error means that the kernel does not provide the file or its value.
func notProvided(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EOPNOTSUPP)
}

// readDirNames returns the names in a directory, and nil if the directory does not exist.
func (r *reader) readDirNames(dir string) []string {
	entries, err := fs.ReadDir(r.fsys, dir)
	if !errors.Is(err, fs.ErrNotExist) {
		r.addProblem(dir, err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// numberedEntries returns the numbers of the directory entries named prefix plus a number, ascending.
func (r *reader) numberedEntries(dir, prefix string) []int {
	var ids []int
	for _, name := range r.readDirNames(dir) {
		digits, ok := strings.CutPrefix(name, prefix)
		if n, err := strconv.ParseUint(digits, 10, 16); ok && err == nil {
			ids = append(ids, int(n))
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// numericEntries returns the directory entries whose names are numbers, ascending.
func (r *reader) numericEntries(dir string) []int { return r.numberedEntries(dir, "") }

// addProblem records an error about a file, if err is not nil. The name in an fs.PathError is dropped, because the
// message has it already.
func (r *reader) addProblem(name string, err error) {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	switch {
	case err == nil:
	case !r.failFast:
		r.problems = append(r.problems, fmt.Sprintf("%s: %v", name, err))
	case r.err == nil:
		r.err = fmt.Errorf("hw: read %s: %w", name, err)
	}
}
