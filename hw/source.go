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

// Package prometheus/procfs reads some of these files as well, and is not used: it takes the path of a mounted sysfs, where
// this package takes any fs.FS, so that archives, trees in memory and this machine go one way and are tested on one another.
// And of a list of devices it returns nothing if a file of one of them cannot be read, where here each is listed with what
// can and with the reason. Nor does it tell the PUs near a device, GIDs, or caches and NUMA nodes.

// maxFile bounds what is read of one file, in bytes. The kernel writes at most a page into most files of sysfs; only
// lists of PUs and the tables of /proc are longer.
const maxFile = 64 << 10

// whole is a tree that reads its files in a quicker way than fs.FS has, and bounds them itself.
type whole interface {
	readWhole(name string) (string, error)
}

// readFile reads a file, and refuses what the kernel would not write: what is longer than maxFile, or no regular file.
func readFile(fsys fs.FS, name string) (string, error) {
	if tree, ok := fsys.(whole); ok {
		return tree.readWhole(name)
	}
	data, err := readHead(fsys, name, maxFile+1)
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%w: longer than %d bytes", ErrMalformed, maxFile)
	}
	return string(data), err
}

// readHead reads up to so many bytes of a file.
func readHead(fsys fs.FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // of a file that was only read: there is nothing to lose
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: not a regular file", ErrMalformed)
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// reader reads the files of a tree. It goes on after one that it cannot read, and keeps a sentence about it, or while
// it is strict the first error.
type reader struct {
	fsys     fs.FS
	sets     map[setText][]int // that were read, by their text
	members  int               // of all sets
	problems []string
	strict   bool
	err      error
}

// maxMembers bounds the sets of one reading: a line of seven letters is a set of thousands.
const maxMembers = 1 << 22

// setText is a set as a file says it, one of the two ways.
type setText struct {
	text string
	mask bool
}

// value is what parse makes of a file, or zero.
func value[T any](r *reader, name string, parse func(string) (T, error)) T {
	text, ok := r.text(name)
	if !ok {
		var zero T
		return zero
	}
	v, err := parse(text)
	r.problem(name, err)
	return v
}

// number is the number in a file, or otherwise where there is none.
func (r *reader) number(name string, otherwise int) int {
	text, ok := r.text(name)
	if !ok {
		return otherwise
	}
	n, err := parseInt(text)
	r.problem(name, err)
	if err != nil {
		return otherwise
	}
	return n
}

func (r *reader) uint(name string, bits int) uint64 {
	return value(r, name, func(text string) (uint64, error) { return parseUint(text, bits) })
}

// list is the set of numbers in a file, ascending.
func (r *reader) list(name string) ([]int, bool) { return r.parseSet(name, false) }

// set is the first of these files that there is: a list, as the end of its name tells, or a mask.
func (r *reader) set(dir string, names ...string) (ids []int, ok bool) {
	for _, name := range names {
		if ids, ok = r.parseSet(dir+name, !strings.HasSuffix(name, "list")); ok {
			return ids, true
		}
	}
	return nil, false
}

// parseSet reads a set. The kernel says the same many times: sets of the same text share memory.
func (r *reader) parseSet(name string, mask bool) ([]int, bool) {
	text, ok := r.text(name)
	if !ok {
		return nil, false
	}
	known := setText{text, mask}
	if ids, ok := r.sets[known]; ok {
		return ids, true
	}
	parse := parseList
	if mask {
		parse = parseMask
	}
	ids, err := parse(text)
	if r.members += len(ids); err == nil && r.members > maxMembers {
		err = fmt.Errorf("%w: sets of more than %d numbers in all", ErrMalformed, maxMembers)
	}
	r.problem(name, err)
	if err == nil {
		if r.sets == nil {
			r.sets = map[setText][]int{}
		}
		r.sets[known] = ids
	}
	return ids, err == nil
}

// text returns false for a file that is not there, and where the kernel has nothing to say: EINVAL is its answer for
// an empty entry of a table and for a counter that the hardware lacks.
func (r *reader) text(name string) (string, bool) {
	data, err := readFile(r.fsys, name)
	if silent(err) {
		return "", false
	}
	r.problem(name, err)
	return strings.TrimRight(data, "\x00"), err == nil // tools that copied trees have left the end of C strings
}

func silent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EOPNOTSUPP)
}

// names lists a directory, and nothing where there is none.
func (r *reader) names(dir string) []string {
	entries, err := fs.ReadDir(r.fsys, dir)
	if !errors.Is(err, fs.ErrNotExist) {
		r.problem(dir, err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// numbered lists the numbers of those entries of a directory that are called prefix and a number, ascending.
func (r *reader) numbered(dir, prefix string) []int {
	var ids []int
	for _, name := range r.names(dir) {
		digits, ok := strings.CutPrefix(name, prefix)
		if n, err := strconv.ParseUint(digits, 10, 16); ok && err == nil {
			ids = append(ids, int(n))
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// numbers lists a directory whose entries are numbered, ascending.
func (r *reader) numbers(dir string) []int { return r.numbered(dir, "") }

// problem keeps an error. Those of package fs say the name themselves.
func (r *reader) problem(name string, err error) {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	switch {
	case err == nil:
	case !r.strict:
		r.problems = append(r.problems, fmt.Sprintf("%s: %v", name, err))
	case r.err == nil:
		r.err = fmt.Errorf("hw: read %s: %w", name, err)
	}
}
