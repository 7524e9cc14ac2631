// Package buildinfo returns the version of ibrun that a program was built from.
package buildinfo

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// Version returns the version of the main module: a tag such as v0.1.0, a pseudo-version for a build from another commit, and
// "(devel)" for a build without version control.
func Version() string {
	v, _ := read(debug.ReadBuildInfo)
	return v
}

// Date returns the day of the commit that the program was built from, YYYY-MM-DD. It is empty if the build was made without
// version control.
func Date() string {
	i, _ := debug.ReadBuildInfo()
	return date(i)
}

func date(i *debug.BuildInfo) string {
	if i == nil {
		return ""
	}
	for _, s := range i.Settings {
		if s.Key == "vcs.time" {
			day, _, _ := strings.Cut(s.Value, "T")
			return day
		}
	}
	return ""
}

// Commit returns the beginning of the hash of the commit of this build, followed by "+changes" if the checkout had changes;
// "unknown" for a build without version control.
func Commit() string {
	_, commit := read(debug.ReadBuildInfo)
	return commit
}

// Line returns one line with the version of ibrun, the commit it was built from if that is known, the version of Go, and the
// platform: "ibrun v0.1.0 (commit 0123456789ab) go1.26.0 linux/amd64".
func Line() string {
	v, commit := read(debug.ReadBuildInfo)
	return fmt.Sprintf("ibrun %s (commit %s) %s %s/%s", v, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// read returns the version and the commit. A commit ends in "+changes" if the checkout had changes that were not committed;
// it is "unknown" if the build was made without version control (-buildvcs=false, or go install of a version).
func read(info func() (*debug.BuildInfo, bool)) (v, commit string) {
	v, commit = "(unknown)", "unknown"
	i, ok := info()
	if ok {
		v = i.Main.Version
		changed := ""
		for _, s := range i.Settings {
			switch {
			case s.Key == "vcs.revision":
				commit = s.Value[:min(12, len(s.Value))]
			case s.Key == "vcs.modified" && s.Value == "true":
				changed = "+changes"
			}
		}
		commit += changed
	}
	return v, commit
}
