package mpi

import (
	"os"
	"runtime/debug"
	"strings"

	"github.com/ibrun/ibrun/hw"
)

// MaxProcessorName is the longest that ProcessorName returns, in bytes; that of C has a NUL more. MPI-5.0 §9.1.2.
const MaxProcessorName = 255

// Version and Subversion are of the standard that names, numbers and meanings are taken from. MPI-5.0 §9.1.1.
const (
	Version    = 5
	Subversion = 0
)

// ProcessorName names the machine that the process runs on at the moment: host name and 8 hexadecimal digits of the
// kernel's boot id. It is the same for all processes of a machine, also in containers with host names of their own, and
// different for any two machines. It has at most MaxProcessorName bytes, and 64 and 9 on Linux, where alone it is to be
// had: errors.ErrUnsupported elsewhere. MPI-5.0 §9.1.2.
func (p *Process) ProcessorName() (string, error) {
	boot, err := hw.BootID()
	if err != nil {
		return "", p.wrapError("ProcessorName", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return "", p.wrapError("ProcessorName", err)
	}
	if boot == p.env.bootID && host == p.env.host {
		host = p.env.nodeHost
	}
	return processorName(host, boot), nil
}

func processorName(host, boot string) string {
	id := "-" + boot[:min(len(boot), 8)]
	return strings.ToValidUTF8(host[:min(len(host), MaxProcessorName-len(id))], "") + id
}

// LibraryVersion names this package and its version, as far as the program was built from one. MPI-5.0 §9.1.1.
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
