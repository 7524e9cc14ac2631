package doctor

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// bundleFlag is the flag --bundle. Its value may be missing.
type bundleFlag struct {
	set  bool
	name string
}

// String returns the name of the file.
func (b *bundleFlag) String() string { return b.name }

// IsBoolFlag says that the value may be missing.
func (b *bundleFlag) IsBoolFlag() bool { return true }

// Set takes the name of the file, or the word true if there is none.
func (b *bundleFlag) Set(value string) error {
	b.set = true
	switch {
	case value == "true":
		return nil
	case !isArchive(value):
		return fmt.Errorf("the name of a bundle must end in .tar.gz or .tgz")
	}
	b.name = value
	return nil
}

func isArchive(name string) bool {
	return strings.HasSuffix(name, ".tar.gz") || strings.HasSuffix(name, ".tgz")
}

// joinBundleName makes one word of --bundle and the name of a file after it.
func joinBundleName(args []string) []string {
	i := slices.IndexFunc(args, func(a string) bool { return a == "--bundle" || a == "-bundle" })
	if i < 0 || i+1 == len(args) || !isArchive(args[i+1]) {
		return args
	}
	return slices.Concat(args[:i], []string{args[i] + "=" + args[i+1]}, args[i+2:])
}

// run writes the bundle and returns the exit code.
func (b *bundleFlag) run(hosts, env []string, version string, stdout, stderr io.Writer) int {
	h, err := probedHost(hosts, env, version)
	if err == nil {
		if b.name == "" {
			b.name = bundleName(h.Name, time.Now())
		}
		err = writeBundle(b.name, h, env, stdout)
	}
	if err != nil {
		fmt.Fprintf(stderr, "ibrun doctor: %v\n", err)
		return exitFailed
	}
	return 0
}
