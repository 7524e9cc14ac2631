package doctor

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// The first kernel in which fork copies registered memory, so that the parent keeps its pages.
const (
	forkMajor = 5
	forkMinor = 12
)

// kernelVersion returns the version of the kernel from /proc/version: Linux version 6.1.0-18-amd64 (...).
func (h *Host) kernelVersion() (major, minor int, text string, err error) {
	text, err = h.readText("proc/version")
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

// processFork checks whether a program with registered memory may fork.
func processFork(h *Host) []Finding {
	if len(h.Top.RDMA) == 0 {
		return noDevicesFinding()
	}
	major, minor, text, err := h.kernelVersion()
	if err != nil {
		return unknownFinding("the safety of fork", err)
	}
	for _, variable := range []string{"RDMAV_FORK_SAFE", "IBV_FORK_SAFE"} {
		if h.Getenv(variable) != "" {
			return okFinding("%s is set", variable)
		}
	}
	if major > forkMajor || major == forkMajor && minor >= forkMinor {
		return okFinding("Linux %s copies registered memory at fork", text)
	}
	unset := "RDMAV_FORK_SAFE is not set"
	if !h.Live {
		unset = "a captured tree does not contain the environment: whether RDMAV_FORK_SAFE is set is unknown"
	}
	return newFinding(Warning, "Linux "+text+" is older than 5.12, and "+unset,
		"a program that starts another one (system, popen) can lose data that devices write to its memory", "export RDMAV_FORK_SAFE=1")
}

// sufficientFiles is how many open files a rank may need in a job over TCP: one connection for each peer.
const sufficientFiles = 4096

// processFiles checks the limit on open files.
func processFiles(h *Host) []Finding {
	soft, hard, err := h.readLimit("Max open files")
	if err != nil {
		return unknownFinding("the limit on open files", err)
	}
	evidence := fmt.Sprintf("a process may open %s files, the hard limit is %s", number(soft), number(hard))
	if soft >= sufficientFiles || hard >= sufficientFiles { // Go raises the soft limit
		return okFinding("%s", evidence)
	}
	return newFinding(Warning, evidence, "each connection is an open file: jobs with more peers than that fail with EMFILE",
		`echo "* - nofile 65536" > /etc/security/limits.d/files.conf   # and log in again; docker run --ulimit nofile=65536`)
}

func number(n uint64) string {
	if n == unlimited {
		return "unlimited"
	}
	return strconv.FormatUint(n, 10)
}

// smallShm is too small for a node with many ranks. The default of Docker is 64 MiB.
const smallShm = 256 << 20

// processShm checks the size of /dev/shm.
func processShm(h *Host) []Finding {
	text, err := h.readText("proc/mounts")
	if err != nil {
		return unknownFinding("the size of /dev/shm", err)
	}
	options, mounted := "", false
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) >= 4 && words[1] == "/dev/shm" {
			options, mounted = words[3], true // the last mount hides earlier ones
		}
	}
	if !mounted {
		return newFinding(Warning, "/dev/shm is not mounted", "other MPI libraries and NCCL keep the shared memory of ranks there",
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
			return infoFinding("the size of /dev/shm is unknown: %s", option)
		case kib<<10 < smallShm:
			return newFinding(Warning, "the size of /dev/shm is "+size(kib<<10),
				"other MPI libraries and NCCL keep their buffers there: ranks are killed by SIGBUS when it is full",
				"docker run --shm-size=8g ...   # or --ipc=host")
		}
		return okFinding("the size of /dev/shm is %s", size(kib<<10))
	}
	return okFinding("/dev/shm has the default size, half of the memory")
}

// processKernel reports the versions of the kernel and of libibverbs.
func processKernel(h *Host) []Finding {
	major, minor, text, err := h.kernelVersion()
	if err != nil {
		return unknownFinding("the kernel's version", err)
	}
	library := "libibverbs is not installed"
	if name := h.findLibrary("libibverbs.so.1"); name != "" {
		library = "/" + name
		if to, err := fs.ReadLink(h.Root, name); err == nil {
			library = to // the target of the link has the version in its name
		}
	}
	// Linux 5 is the first major version with the complete ioctl interface of uverbs.
	if major < 5 {
		return newFinding(Warning, fmt.Sprintf("Linux %s, %s", text, library),
			fmt.Sprintf("version %d.%d is older than the interfaces that ibrun is tested with", major, minor),
			"use Linux 5.4 or later")
	}
	return okFinding("Linux %s, %s", text, library)
}

// processNetns checks whether network namespaces, which containers have, share RDMA devices.
func processNetns(h *Host) []Finding {
	if len(h.Top.RDMA) == 0 {
		return noDevicesFinding()
	}
	text, err := h.readText("sys/module/ib_core/parameters/netns_mode")
	switch {
	case err != nil:
		return unknownFinding("the sharing of RDMA devices between network namespaces", err)
	case text == "Y":
		return okFinding("RDMA devices are shared by all network namespaces")
	}
	return newFinding(Info, "each RDMA device belongs to one network namespace",
		"containers see only devices that were moved to them",
		"rdma system set netns shared   # before any namespace is created")
}
