package ibvmock

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/internal/needtest"
)

//go:embed testdata/*.c testdata/mock.h testdata/exports.map
var sources embed.FS

const (
	soname  = "libibverbs.so.1"
	machine = "machine" // the program of machine.c

	packages = "gcc libibverbs-dev" // Debian's packages of the compiler and the headers
)

// Build compiles the library, and returns the directory that contains libibverbs.so.1 and the program machine. Both are kept in
// the user's cache directory, by the hash of what they are made from. Without a compiler or that directory, the test is skipped;
// in CI it fails.
func Build(tb testing.TB) string {
	tb.Helper()
	if runtime.GOOS != "linux" {
		tb.Skip("the mock of libibverbs needs Linux")
	}
	gcc := needtest.Program(tb, "gcc", packages)
	dir := filepath.Join(cacheDir(tb), sourceHash(tb, gcc))
	if _, err := os.Stat(filepath.Join(dir, soname)); err == nil {
		return dir
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		needtest.Missing(tb, "a cache directory for the mock of libibverbs: %v", err)
	}
	work := tb.TempDir()
	compile(tb, gcc, work)
	for _, name := range []string{machine, soname} { // the library is the last, since its existence says that both are there
		if err := install(filepath.Join(work, name), dir); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}

// install copies a program into a directory. Another process may compile the same one: each writes a file of its own, and the
// name is always a whole program.
func install(path, dir string) error {
	whole, err := os.CreateTemp(dir, "new-*")
	if err != nil {
		return err
	}
	program, err := os.ReadFile(path)
	_, writeErr := whole.Write(program)
	return errors.Join(err, writeErr, whole.Chmod(0o755), whole.Close(),
		os.Rename(whole.Name(), filepath.Join(dir, filepath.Base(path))))
}

// cacheDir returns a directory that outlives the test: all tests of a process must load the same file, because a copy would be
// another library with devices of its own.
func cacheDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.UserCacheDir()
	if err != nil {
		needtest.Missing(tb, "a cache directory for the mock of libibverbs: %v", err)
	}
	return filepath.Join(dir, "ibrun-ibvmock")
}

// sourceHash returns a name for the library that is made from the sources with this compiler and the installed header.
func sourceHash(tb testing.TB, gcc string) string {
	tb.Helper()
	h := sha256.New()
	version, err := exec.Command(gcc, "-v").CombinedOutput()
	if err != nil {
		needtest.Missing(tb, "a working gcc: %v", err)
	}
	h.Write(version)
	h.Write([]byte(strings.Join(extraFlags(), " ")))
	h.Write([]byte(os.Getenv(without)))
	header, err := os.ReadFile("/usr/include/infiniband/verbs.h")
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // the compiler may find it elsewhere
		tb.Fatal(err)
	}
	h.Write(header)
	for _, name := range sourceNames(tb) {
		text, err := sources.ReadFile("testdata/" + name)
		if err != nil {
			tb.Fatal(err)
		}
		h.Write(text)
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

func sourceNames(tb testing.TB) []string {
	tb.Helper()
	entries, err := sources.ReadDir("testdata")
	if err != nil {
		tb.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// extraFlags returns what IBVMOCK_CFLAGS and IBVMOCK_WITHOUT add to the flags of the compiler.
func extraFlags() []string {
	flags := strings.Fields(os.Getenv("IBVMOCK_CFLAGS"))
	if os.Getenv(without) != "" {
		flags = append(flags, "-Wl,--unresolved-symbols=ignore-all") // the program calls functions that may be missing
	}
	return flags
}

// without names the functions that the library is to lack, with commas between, as an old one does.
const without = "IBVMOCK_WITHOUT"

// hideFunctions removes the functions that are to be missing from the list of those that programs find.
func hideFunctions(exports string) error {
	names := strings.FieldsFunc(os.Getenv(without), func(r rune) bool { return r == ',' })
	if len(names) == 0 {
		return nil
	}
	text, err := os.ReadFile(exports)
	if err != nil {
		return err
	}
	for _, name := range names { // a version must have a name, also one that does not exist
		text = bytes.ReplaceAll(text, []byte("\t"+name+";"), []byte("\tnone_"+name+";"))
	}
	return errors.Join(os.Remove(exports), os.WriteFile(exports, text, 0o644)) // the copy may be read-only
}

// compile writes the library and the program into a directory.
func compile(tb testing.TB, gcc, dir string) {
	tb.Helper()
	err := errors.Join(os.CopyFS(dir, sources), hideFunctions(filepath.Join(dir, "testdata", "exports.map")))
	if err != nil {
		tb.Fatal(err)
	}
	library := filepath.Join(dir, soname)
	args := []string{"-shared", "-fPIC", "-fvisibility=hidden", "-fno-plt", "-Wl,--version-script,exports.map",
		"-Wl,-soname," + soname, "-o", library}
	for _, name := range sourceNames(tb) {
		if filepath.Ext(name) == ".c" && name != machine+".c" {
			args = append(args, name)
		}
	}
	runCompiler(tb, gcc, dir, append(args, "-lpthread")...)
	runCompiler(tb, gcc, dir, "-Wno-format-truncation", "-o", filepath.Join(dir, machine), machine+".c", library)
}

// runCompiler runs the compiler in the directory of the sources.
func runCompiler(tb testing.TB, gcc, dir string, args ...string) {
	tb.Helper()
	flags := []string{"-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"}
	cmd := exec.Command(gcc, slices.Concat(flags, extraFlags(), args)...)
	cmd.Dir = filepath.Join(dir, "testdata")
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
	case bytes.Contains(out, []byte("infiniband/verbs.h: No such file")):
		needtest.Missing(tb, "infiniband/verbs.h: apt-get install %s", packages)
	default:
		tb.Fatalf("compile the mock of libibverbs: %v\n%s", err, out)
	}
}
