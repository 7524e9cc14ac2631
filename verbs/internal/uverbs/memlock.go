package uverbs

import (
	"strconv"
	"strings"
)

// ipcLock is the number of CAP_IPC_LOCK, which lifts the limit on locked memory.
const ipcLock = 14

// lockFacts is what the limit on locked memory depends on.
type lockFacts struct {
	limit  uint64 // RLIMIT_MEMLOCK, all ones for none
	status string // /proc/thread-self/status
	uidMap string // /proc/self/uid_map
	page   uint64
}

// explain says that the limit is why memory could not be registered, or returns nil if it cannot be.
func (f lockFacts) explain(start, length uint64) *MemlockError {
	kib, _ := strconv.ParseUint(strings.TrimSuffix(field(f.status, "VmPin"), " kB"), 10, 64)
	caps, _ := strconv.ParseUint(field(f.status, "CapEff"), 16, 64)
	// The kernel asks for the capability in the first user namespace, whose map is the identity over all users.
	first := strings.Join(strings.Fields(f.uidMap), " ") == "0 0 4294967295"
	m := &MemlockError{Limit: f.limit, Pinned: kib << 10, Need: pages(start, length, f.page) * f.page}
	if caps>>ipcLock&1 == 1 && first || m.Need <= m.Limit && m.Pinned <= m.Limit-m.Need {
		return nil
	}
	return m
}

// pages is the number of pages that a range touches.
func pages(start, length, page uint64) uint64 {
	return (start%page+length%page+page-1)/page + length/page
}

// field is the value behind a key in such a file.
func field(status, key string) string {
	for line := range strings.Lines(status) {
		if k, v, ok := strings.Cut(line, ":"); ok && k == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
