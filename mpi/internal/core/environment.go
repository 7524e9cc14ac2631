package core

import (
	"os"
	"runtime/debug"
	"strings"

	"github.com/ibrun/ibrun/hw"
)

// MaxProcessorName is the maximum length of the result of ProcessorName in bytes. C's constant also
// counts the final NUL.
const MaxProcessorName = 255

// Version and Subversion are those of the standard that this package follows.
const (
	Version    = 5
	Subversion = 0
)

// ProcessorName returns the name of the machine on which the process runs now: the host name and 8
// hexadecimal digits of the kernel's boot id.
func (p *Process) ProcessorName() (string, error) {
	if err := p.checkUsable("ProcessorName"); err != nil {
		return "", err
	}
	boot, err := hw.BootID()
	if err != nil {
		return "", p.wrapError("ProcessorName", err)
	}
	if boot == p.env.bootID {
		return processorName(p.env.nodeHost, boot), nil
	}
	host, err := os.Hostname() // the process has moved to another machine
	if err != nil {
		return "", p.wrapError("ProcessorName", err)
	}
	return processorName(host, boot), nil
}

func processorName(host, boot string) string {
	id := "-" + boot[:min(len(boot), 8)]
	return strings.ToValidUTF8(host[:min(len(host), MaxProcessorName-len(id))], "") + id
}

// LibraryVersion returns the name of this package, and its version if the program was built from a
// released one.
func LibraryVersion() string {
	const module = "github.com/ibrun/ibrun"
	version := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range append(info.Deps, &info.Main) {
			if m.Path == module && m.Version != "" {
				version = m.Version
			}
		}
	}
	return "ibrun " + version
}
