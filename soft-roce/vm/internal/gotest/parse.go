package gotest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Errors of Parse and Build, for errors.Is.
var (
	// ErrUse: the arguments are invalid, or need something that a guest cannot do.
	ErrUse = errors.New("go test")
	// ErrBuild: packages cannot be found or built. The go command has printed the reason.
	ErrBuild = errors.New("tests were not built")
)

// Command is a parsed `go test` command.
type Command struct {
	// Packages are the patterns of packages.
	Packages []string
	// BuildFlags are for the go command.
	BuildFlags []string
	// Flags are for the test programs. They always have a -test.count, because a cached result is not one of the guest.
	Flags []string
}

// use is the treatment of a flag.
type use int

const (
	unknown use = iota
	test        // becomes -test.NAME=VALUE
	build       // is for the go command
	dropped     // has no effect on test programs built with -c
	refused
)

// flagUse returns the use of a flag of go test, and whether its value may be the next argument.
func flagUse(name string) (u use, value bool) {
	is := func(names string) bool { return slices.Contains(strings.Fields(names), name) }
	switch {
	case is("benchmem failfast fullpath short v"):
		return test, false
	case is("bench benchtime blockprofilerate count cpu list memprofilerate mutexprofilefraction parallel run shuffle skip timeout"):
		return test, true
	case is("a asan buildvcs cover linkshared modcacherw msan race trimpath work x"):
		return build, false
	case is("C asmflags buildmode compiler covermode coverpkg gccgoflags gcflags installsuffix ldflags mod modfile overlay p pgo " +
		"pkgdir tags toolexec"):
		return build, true
	case is("vet"):
		return dropped, true
	case is("artifacts blockprofile c coverprofile cpuprofile exec fuzz fuzzminimizetime fuzztime i json memprofile mutexprofile " +
		"n o outputdir trace"):
		return refused, false
	}
	return unknown, false
}

// Parse parses the arguments after "go test". Like the go command, it passes unknown flags to the test programs, together with
// all later arguments that are not flags.
func Parse(words []string) (*Command, error) {
	c := &Command{}
	ended := false // no more packages: the arguments may be values of an unknown flag
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		if word == "-args" || word == "--args" {
			c.Flags = append(c.Flags, words...)
			break
		}
		if len(word) < 2 || word[0] != '-' {
			if ended {
				c.Flags = append(c.Flags, word)
			} else {
				c.Packages = append(c.Packages, word)
			}
			continue
		}
		name, value, given := strings.Cut(strings.TrimPrefix(word[1:], "-"), "=")
		name = strings.TrimPrefix(name, "test.")
		u, takes := flagUse(name)
		if takes && !given {
			if len(words) == 0 {
				return nil, fmt.Errorf("%w: %s needs a value", ErrUse, word)
			}
			value, words, given = words[0], words[1:], true
		}
		switch u {
		case test:
			c.Flags = append(c.Flags, "-test."+name+equals(value, given))
		case build:
			c.BuildFlags = append(c.BuildFlags, "-"+name+equals(value, given))
		case unknown:
			c.Flags, ended = append(c.Flags, word), true
		case refused:
			return nil, fmt.Errorf("%w: -%s does not work in a guest, which keeps no files and has no cache of the go command "+
				"(build a test program yourself and run it with `sh -c`; it can write to the guest's /tmp)", ErrUse, name)
		}
	}
	if len(c.Packages) == 0 {
		c.Packages = []string{"."}
	}
	c.Flags = append(c.defaults(), c.Flags...)
	return c, nil
}

func equals(value string, given bool) string {
	if !given {
		return ""
	}
	return "=" + value
}

// defaults returns the flags that the go command passes by default. Later flags override them.
func (c *Command) defaults() []string {
	return []string{"-test.paniconexit0", "-test.timeout=10m0s", "-test.count=1"}
}
