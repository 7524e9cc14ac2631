package hw

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Limits of a captured tree. The tree of a machine with a thousand PUs has about 50,000 files and 20 MiB.
const (
	maxEntries   = 1 << 20
	maxTreeBytes = 128 << 20
	maxTreeFile  = 4 << 20
	maxLinks     = 40 // links followed to reach one file, as in Linux
	maxPath      = 4096
)

// TreeFS is a tree of files. The caller must close it after use.
type TreeFS interface {
	fs.FS
	io.Closer
}

// OpenTree opens a captured tree for [Read]: an archive written by [Capture] or by hwloc-gather-topology, or a directory
// to which one was unpacked. Symbolic links that lead out of the tree are dangling. The caller must close the tree.
func OpenTree(name string) (TreeFS, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("hw: open tree: %w", err)
	}
	defer f.Close() // it was only read, or is opened again as a directory
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("hw: open tree: %w", err)
	}
	if !st.IsDir() {
		tree, err := Unpack(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return tree, nil
	}
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, fmt.Errorf("hw: open tree: %w", err)
	}
	inner, ok := root.FS().(fs.ReadLinkFS)
	if !ok {
		return nil, errors.Join(fmt.Errorf("hw: open tree %s: no links: %w", name, errors.ErrUnsupported), root.Close())
	}
	return dirTree{inner, root}, nil
}

// dirTree is a tree in a directory.
type dirTree struct {
	fs.ReadLinkFS
	root *os.Root
}

// Open opens a file. It does not block on a named pipe.
func (d dirTree) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return d.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

func (d dirTree) Close() error { return d.root.Close() }

// Tree is a tree of files in memory. It may be read concurrently.
type Tree struct {
	root    *treeNode
	lastDir atomic.Pointer[treeDir] // directory of the last lookup: the next file is often in it too
}

// treeDir is a directory and the name under which it was found.
type treeDir struct {
	name string
	node *treeNode
}

// treeNode is a file, a directory or a link.
type treeNode struct {
	name     string // last element of the path
	mode     fs.FileMode
	data     string    // text of a file, or target of a link
	parent   *treeNode // nil at the root
	children map[string]*treeNode
	entries  []fs.DirEntry // children by name
}

var errTooLarge = errors.New("hw: the tree is too large")

// Unpack reads a tree from a tar archive into memory. The archive may be compressed by gzip or bzip2. If the archive has
// a single top directory, that directory becomes the root.
func Unpack(r io.Reader) (*Tree, error) {
	in := bufio.NewReader(r)
	magic, _ := in.Peek(3) // a shorter archive is refused below
	var plain io.Reader = in
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		unzipped, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("hw: unpack tree: %w", err)
		}
		plain = unzipped
	case string(magic) == "BZh":
		plain = bzip2.NewReader(in)
	}
	t := &Tree{root: newDir(".", nil)}
	archive := tar.NewReader(plain)
	for total, entries := 0, 0; ; entries++ {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && (h.Size > maxTreeFile || total > maxTreeBytes || entries > maxEntries) {
			err = errTooLarge
		}
		if err == nil {
			total += int(h.Size) + len(h.Name) + 256
			err = t.root.unpack(h, archive)
		}
		if err != nil {
			return nil, fmt.Errorf("hw: unpack tree: %w", err)
		}
	}
	if _, err := io.CopyN(io.Discard, plain, 1<<20); err != nil && !errors.Is(err, io.EOF) { // reads the checksum after the archive
		return nil, fmt.Errorf("hw: unpack tree: %w", err)
	}
	if len(t.root.children) == 0 {
		return nil, fmt.Errorf("hw: unpack tree: the archive is empty: %w", io.ErrUnexpectedEOF)
	}
	t.stripSingleDir()
	t.root.sortEntries()
	return t, nil
}

// newDir returns an empty directory.
func newDir(name string, parent *treeNode) *treeNode {
	return &treeNode{name: name, mode: fs.ModeDir | 0o555, parent: parent, children: map[string]*treeNode{}}
}

// unpack adds one entry of an archive below the root.
func (n *treeNode) unpack(h *tar.Header, r io.Reader) error {
	name := path.Clean(strings.TrimPrefix(h.Name, "./"))
	if name == "." || !fs.ValidPath(name) {
		return nil // the root itself, or an invalid name
	}
	if len(name) > maxPath {
		return errTooLarge
	}
	leaf := &treeNode{name: path.Base(name)}
	switch h.Typeflag {
	case tar.TypeDir:
		leaf = nil
	case tar.TypeSymlink:
		leaf.mode, leaf.data = fs.ModeSymlink|0o777, h.Linkname
	case tar.TypeReg:
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		leaf.mode, leaf.data = 0o444, string(data)
	default:
		return nil
	}
	n.add(name, leaf)
	return nil
}

// add inserts a file or link, or with a nil leaf only a directory, and creates the directories above it. If a name
// occurs twice, the first entry counts.
func (n *treeNode) add(name string, leaf *treeNode) {
	part, rest, more := strings.Cut(name, "/")
	child := n.children[part]
	switch {
	case child == nil && !more && leaf != nil:
		leaf.parent = n
		n.children[part] = leaf
		return
	case child == nil:
		child = newDir(part, n)
		n.children[part] = child
	}
	if more && child.mode.IsDir() {
		child.add(rest, leaf)
	}
}

// stripSingleDir makes the only directory of the root the new root.
func (t *Tree) stripSingleDir() {
	if len(t.root.children) != 1 {
		return
	}
	for name, top := range t.root.children {
		if name != "sys" && name != "proc" && top.mode.IsDir() {
			t.root, top.parent = top, nil
		}
	}
}

// sortEntries fills the sorted entries of all directories.
func (n *treeNode) sortEntries() {
	for _, name := range slices.Sorted(maps.Keys(n.children)) {
		n.entries = append(n.entries, fs.FileInfoToDirEntry(treeInfo{n.children[name]}))
		n.children[name].sortEntries()
	}
}

// Close does nothing, because a tree in memory has no open files.
func (t *Tree) Close() error { return nil }

// lookup finds a file. It follows links on the way, and with last also a link at the end.
func (t *Tree) lookup(op, name string, last bool) (*treeNode, error) {
	fail := func(err error) (*treeNode, error) { return nil, &fs.PathError{Op: op, Path: name, Err: err} }
	if !fs.ValidPath(name) {
		return fail(fs.ErrInvalid)
	}
	dir, base := path.Split(name)
	if known := t.lastDir.Load(); known != nil && known.name == dir && name != "." {
		switch n := known.node.children[base]; {
		case n == nil:
			return fail(fs.ErrNotExist)
		case n.mode&fs.ModeSymlink == 0 || !last:
			return n, nil
		}
	}
	at, links, reached := t.root, 0, false
	for rest := name; rest != ""; {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		if rest == "" && !reached && name != "." {
			reached = true
			t.lastDir.Store(&treeDir{dir, at})
		}
		n := at.children[part]
		switch {
		case part == "" || part == ".":
			continue
		case part == "..":
			n = cmp.Or(at.parent, at) // the parent of the root is the root
		case n == nil:
			return fail(fs.ErrNotExist)
		}
		if n.mode&fs.ModeSymlink == 0 || rest == "" && !last {
			at = n
			continue
		}
		if links++; links > maxLinks || len(n.data)+len(rest) > maxPath {
			return fail(syscall.ELOOP)
		}
		if rest = n.data + "/" + rest; rest[0] == '/' {
			at = t.root
		}
	}
	return at, nil
}

// Open opens a file or directory.
func (t *Tree) Open(name string) (fs.File, error) {
	n, err := t.lookup("open", name, true)
	if err != nil {
		return nil, err
	}
	f := &treeFile{tree: t, treeNode: n, path: name}
	f.Reader.Reset(n.data)
	return f, nil
}

// readFile returns the text of a file without opening it.
func (t *Tree) readFile(name string) (string, error) {
	n, err := t.lookup("read", name, true)
	switch {
	case err != nil:
		return "", err
	case n.mode.IsDir():
		return "", &fs.PathError{Op: "read", Path: name, Err: syscall.EISDIR}
	case len(n.data) > maxFile:
		return "", fmt.Errorf("%w: longer than %d bytes", ErrMalformed, maxFile)
	}
	return n.data, nil
}

// ReadDir returns the entries of a directory sorted by name.
func (t *Tree) ReadDir(name string) ([]fs.DirEntry, error) {
	n, err := t.lookup("readdir", name, true)
	if err == nil && !n.mode.IsDir() {
		err = &fs.PathError{Op: "readdir", Path: name, Err: syscall.ENOTDIR}
	}
	if err != nil {
		return nil, err
	}
	return slices.Clone(n.entries), nil
}

// ReadLink returns the target of a link.
func (t *Tree) ReadLink(name string) (string, error) {
	n, err := t.lookup("readlink", name, false)
	if err == nil && n.mode&fs.ModeSymlink == 0 {
		err = &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	if err != nil {
		return "", err
	}
	return n.data, nil
}

// Lstat returns information about a file, directory or link.
func (t *Tree) Lstat(name string) (fs.FileInfo, error) {
	n, err := t.lookup("lstat", name, false)
	if err != nil {
		return nil, err
	}
	return treeInfo{n}, nil
}

// treeFile is an open file or directory.
type treeFile struct {
	strings.Reader
	*treeNode
	tree        *Tree
	path        string
	entriesRead int // by ReadDir
}

func (f *treeFile) Stat() (fs.FileInfo, error) { return treeInfo{f.treeNode}, nil }
func (f *treeFile) Close() error               { return nil }

func (f *treeFile) Read(p []byte) (int, error) {
	if f.mode.IsDir() {
		return 0, &fs.PathError{Op: "read", Path: f.path, Err: syscall.EISDIR}
	}
	return f.Reader.Read(p)
}

// ReadDir returns the next n entries of a directory.
func (f *treeFile) ReadDir(n int) ([]fs.DirEntry, error) {
	all, err := f.tree.ReadDir(f.path)
	if err != nil {
		return nil, err
	}
	all = all[min(f.entriesRead, len(all)):]
	if n > 0 && len(all) == 0 {
		return nil, io.EOF
	}
	if n > 0 {
		all = all[:min(n, len(all))]
	}
	f.entriesRead += len(all)
	return all, nil
}

// treeInfo is the fs.FileInfo of a node.
type treeInfo struct{ *treeNode }

func (i treeInfo) Name() string       { return i.name }
func (i treeInfo) Size() int64        { return int64(len(i.data)) }
func (i treeInfo) Mode() fs.FileMode  { return i.mode }
func (i treeInfo) ModTime() time.Time { return time.Time{} }
func (i treeInfo) IsDir() bool        { return i.mode.IsDir() }
func (i treeInfo) Sys() any           { return nil }
