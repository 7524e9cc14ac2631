// Package hwtest makes machines from text, for tests of programs that read the node:
//
//	top, err := hw.Read(hwtest.Tree(t, "testdata/two-sockets.txtar"))
//
// The text is a txtar archive of the files below the root directory, as package hw reads them. Three rules keep it short:
//
//   - A file named "a -> b" is a symbolic link a with the target b.
//   - Braces in a name describe several files: cpu{0-2,4}/online is four files. In the text of the file, and in the target of
//     a link, {} is replaced by the number that replaced the first brace.
//   - A set of PUs is written as a list, core_cpus_list. FromText derives the mask core_cpus, which the kernel has beside it.
//
// A file whose text is the name of an error, !EIO, !EACCES, !EINVAL or !ENODEV, cannot be read.
package hwtest

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/ibrun/ibrun/hw"
)

// Tree reads an archive from a file. It calls t.Fatal on an error. The file system may be read concurrently.
func Tree(t testing.TB, name string) fs.FS {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := FromText(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return tree
}

// Archives reads the archives that match a pattern of filepath.Glob, for FromText and Corrupt. It calls t.Fatal on an
// error. It leaves out machines with two sockets: they are so large that a fuzzer would spend nearly all its time on
// them.
func Archives(t testing.TB, pattern string) (all [][]byte) {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: no machines: %v", pattern, err)
	}
	for _, name := range names {
		if strings.Contains(name, "two-sockets") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	return all
}

// FromText returns the tree that an archive describes. The file system may be read concurrently.
func FromText(archive []byte) (fs.FS, error) {
	files := map[string]string{}
	links := map[string]string{}
	for _, f := range txtar.Parse(archive).Files {
		if f.Name == "want" {
			continue // this file is for the test itself
		}
		pattern, target, isLink := strings.Cut(f.Name, " -> ")
		err := expandBraces(pattern, "", func(name, first string) error {
			if isLink {
				return addUnique(links, name, strings.ReplaceAll(target, "{}", first))
			}
			return addUnique(files, name, strings.ReplaceAll(string(f.Data), "{}", first))
		})
		if err != nil {
			return nil, err
		}
	}
	if err := addMasks(files); err != nil {
		return nil, err
	}
	unreadable := false
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for name, text := range files {
		unreadable = unreadable || errnos[text] != nil
		err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(text)), Mode: 0o444})
		if err != nil {
			return nil, err
		}
		if _, err := w.Write([]byte(text)); err != nil {
			return nil, err
		}
	}
	for name, target := range links {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	tree, err := hw.Unpack(&packed)
	if err != nil || !unreadable {
		return tree, err
	}
	return unreadableTree{tree}, nil
}

// Corrupt returns the archive with the text of one file replaced, for fuzzing. file is taken modulo the number of files.
// With link, the file becomes a symbolic link to text.
func Corrupt(archive []byte, file uint16, text string, link bool) []byte {
	parsed := txtar.Parse(archive)
	if len(parsed.Files) == 0 {
		return archive
	}
	f := &parsed.Files[int(file)%len(parsed.Files)]
	if link && text != "" {
		f.Name += " -> " + text
	}
	f.Data = []byte(text)
	return txtar.Format(parsed)
}

// addUnique adds an entry to a map. It fails if the name exists already or is not a valid path.
func addUnique(all map[string]string, name, text string) error {
	if _, again := all[name]; again {
		return fmt.Errorf("%s occurs twice", name)
	}
	if !fs.ValidPath(name) {
		return fmt.Errorf("%s is not a path below the root", name)
	}
	all[name] = text
	return nil
}

// maxRange bounds the number of names in a range. No machine has more devices of a kind.
const maxRange = 1 << 13

// expandBraces calls each for every name that a pattern describes. It also passes the word that replaced the first
// brace.
func expandBraces(pattern, first string, each func(name, first string) error) error {
	before, rest, found := strings.Cut(pattern, "{")
	list, after, closed := strings.Cut(rest, "}")
	if !found {
		return each(pattern, first)
	}
	if !closed {
		return fmt.Errorf("%s has an unclosed brace", pattern)
	}
	for part := range strings.SplitSeq(list, ",") {
		words := []string{part}
		if from, to, isRange := strings.Cut(part, "-"); isRange {
			lo, errLo := strconv.Atoi(from)
			hi, errHi := strconv.Atoi(to)
			if errLo != nil || errHi != nil || lo > hi || hi-lo >= maxRange {
				return fmt.Errorf("%s: bad range %s", pattern, part)
			}
			words = nil
			for n := lo; n <= hi; n++ {
				words = append(words, strconv.Itoa(n))
			}
		}
		for _, word := range words {
			known := first
			if known == "" {
				known = word
			}
			if err := expandBraces(before+word+after, known, each); err != nil {
				return err
			}
		}
	}
	return nil
}

// addMasks adds the mask file that the kernel has beside each list of PUs.
func addMasks(files map[string]string) error {
	for name, text := range files {
		dir, base := path.Split(name)
		mask, ok := strings.CutSuffix(base, "_list")
		switch base {
		case "cpulist":
			mask, ok = "cpumap", true
		case "local_cpulist":
			mask, ok = "local_cpus", true
		case "shared_cpu_list":
			mask, ok = "shared_cpu_map", true
		}
		if _, given := files[dir+mask]; given || !ok || errnos[text] != nil {
			continue
		}
		bits := new(big.Int)
		err := expandBraces("{"+strings.TrimSpace(text)+"}", "", func(word, _ string) error {
			if word == "" {
				return nil
			}
			n, err := strconv.ParseUint(word, 10, 13)
			bits.SetBit(bits, int(n), 1)
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		var words []string
		for word := new(big.Int); bits.Sign() > 0 || words == nil; bits.Rsh(bits, 32) {
			words = append(words, fmt.Sprintf("%08x", word.And(bits, big.NewInt(0xffffffff))))
		}
		slices.Reverse(words)
		files[dir+mask] = strings.Join(words, ",") + "\n"
	}
	return nil
}

var errnos = map[string]error{
	"!EIO\n": syscall.EIO, "!EACCES\n": syscall.EACCES, "!EINVAL\n": syscall.EINVAL, "!ENODEV\n": syscall.ENODEV,
}

// unreadableTree is a tree in which some files cannot be read.
type unreadableTree struct{ fs.ReadLinkFS }

// Open fails for files whose text is the name of an error.
func (b unreadableTree) Open(name string) (fs.File, error) {
	f, err := b.ReadLinkFS.Open(name)
	if err != nil {
		return nil, err
	}
	head := make([]byte, 16)
	n, err := f.Read(head)
	if errno := errnos[string(head[:n])]; err == nil && errno != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errno}
	}
	return b.ReadLinkFS.Open(name)
}
