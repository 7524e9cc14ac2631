package doctor

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// The first kernel that copies registered memory at fork instead of taking it from the parent.
const (
	forkMajor = 5
	forkMinor = 12
)

// version reads the kernel's: Linux version 6.1.0-18-amd64 (...).
func (h *Host) version() (major, minor int, text string, err error) {
	text, err = h.text("proc/version")
	if err != nil {
		return 0, 0, "", err
	}
	text, _, _ = strings.Cut(strings.TrimPrefix(text, "Linux version "), " ")
	first, rest, _ := strings.Cut(text, ".")
	second := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	if major, err = strconv.Atoi(first); err == nil {
		minor, err = strconv.Atoi(second)
	}
	if err != nil {
		err = fmt.Errorf("proc/version: %q: %w", text, err)
	}
	return major, minor, text, err
}

// processFork looks whether a program with registered memory may start another one.
func processFork(h *Host) []Finding {
	if len(h.Top.RDMA) == 0 {
		return noDevices()
	}
	major, minor, text, err := h.version()
	if err != nil {
		return unknown("whether fork is safe", err)
	}
	for _, variable := range []string{"RDMAV_FORK_SAFE", "IBV_FORK_SAFE"} {
		if h.Getenv(variable) != "" {
			return ok("%s is set", variable)
		}
	}
	if major > forkMajor || major == forkMajor && minor >= forkMinor {
		return ok("Linux %s copies registered memory at fork", text)
	}
	unset := "RDMAV_FORK_SAFE is not set"
	if !h.Live {
		unset = "whether RDMAV_FORK_SAFE is set, a captured tree does not tell"
	}
	return finding(Warning, "Linux "+text+" is older than 5.12, and "+unset,
		"a program that starts another one (system, popen) can lose what devices write to its memory", "export RDMAV_FORK_SAFE=1")
}

// fewFiles is how many open files a job over TCP may need on a node: a connection for each peer of each rank has its own
// process, so this is of one.
const fewFiles = 4096

// processFiles looks at the number of files a process may open.
func processFiles(h *Host) []Finding {
	soft, hard, err := h.limit("Max open files")
	if err != nil {
		return unknown("the limit on open files", err)
	}
	evidence := fmt.Sprintf("a process may open %s files, %s if it asks for it", number(soft), number(hard))
	if soft >= fewFiles || hard >= fewFiles { // Go asks for it
		return ok("%s", evidence)
	}
	return finding(Warning, evidence, "each connection is one: jobs of more nodes than that fail with EMFILE",
		`echo "* - nofile 65536" > /etc/security/limits.d/files.conf   # and log in again; docker run --ulimit nofile=65536`)
}

func number(n uint64) string {
	if n == unlimited {
		return "any number of"
	}
	return strconv.FormatUint(n, 10)
}

// smallShm is too little for a node full of ranks. Docker gives 64 MiB.
const smallShm = 256 << 20

// processShm looks at the room for memory that ranks share.
func processShm(h *Host) []Finding {
	text, err := h.text("proc/mounts")
	if err != nil {
		return unknown("the size of /dev/shm", err)
	}
	options, mounted := "", false
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) >= 4 && words[1] == "/dev/shm" {
			options, mounted = words[3], true // the last one hides those before
		}
	}
	if !mounted {
		return finding(Warning, "/dev/shm is not mounted", "other MPI libraries and NCCL keep what ranks share there",
			"mount -t tmpfs shm /dev/shm")
	}
	for option := range strings.SplitSeq(options, ",") {
		value, found := strings.CutPrefix(option, "size=")
		if !found {
			continue
		}
		digits, inKiB := strings.CutSuffix(value, "k")
		kib, err := strconv.ParseUint(digits, 10, 54)
		switch {
		case err != nil || !inKiB:
			return hint("the size of /dev/shm is unknown: %s", option)
		case kib<<10 < smallShm:
			return finding(Warning, "/dev/shm has "+size(kib<<10),
				"other MPI libraries and NCCL keep their buffers there: ranks end with SIGBUS when it is full",
				"docker run --shm-size=8g ...   # or --ipc=host")
		}
		return ok("/dev/shm has %s", size(kib<<10))
	}
	return ok("/dev/shm is as large as the kernel allows, half of the memory")
}

// processKernel says which versions are there.
func processKernel(h *Host) []Finding {
	major, minor, text, err := h.version()
	if err != nil {
		return unknown("the kernel's version", err)
	}
	library := "libibverbs is not installed"
	if name := h.library("libibverbs.so.1"); name != "" {
		library = "/" + name
		if to, err := fs.ReadLink(h.Root, name); err == nil {
			library = to // it has the version in its name
		}
	}
	// The ioctl interface of uverbs is complete from here on.
	if major < 5 {
		return finding(Warning, fmt.Sprintf("Linux %s, %s", text, library),
			fmt.Sprintf("version %d.%d is older than the interfaces that ibrun is tested with", major, minor),
			"use Linux 5.4 or later")
	}
	return ok("Linux %s, %s", text, library)
}

// processNetns looks how RDMA devices and network namespaces go together: containers with a network of their own.
func processNetns(h *Host) []Finding {
	if len(h.Top.RDMA) == 0 {
		return noDevices()
	}
	text, err := h.text("sys/module/ib_core/parameters/netns_mode")
	switch {
	case err != nil:
		return unknown("whether RDMA devices are shared by network namespaces", err)
	case text == "Y":
		return ok("RDMA devices are shared by all network namespaces")
	}
	return finding(Info, "each RDMA device belongs to one network namespace", "containers see only what was moved to them",
		"rdma system set netns shared   # before any namespace is made")
}
