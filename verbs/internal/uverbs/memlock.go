package uverbs

import (
	"strconv"
	"strings"
)

// ipcLock is the number of CAP_IPC_LOCK, which lifts the limit on locked memory.
const ipcLock = 14

// lockLimits is the limit on locked memory and what it depends on.
type lockLimits struct {
	limit  uint64 // RLIMIT_MEMLOCK, all ones if unlimited
	status string // /proc/thread-self/status
	uidMap string // /proc/self/uid_map
	page   uint64
}

// explain returns a MemlockError if the limit can be the reason why memory could not be registered, or nil.
func (l lockLimits) explain(start, length uint64) *MemlockError {
	kib, _ := strconv.ParseUint(strings.TrimSuffix(field(l.status, "VmPin"), " kB"), 10, 64)
	caps, _ := strconv.ParseUint(field(l.status, "CapEff"), 16, 64)
	// The kernel checks the capability in the initial user namespace, whose map is the identity over all users.
	initialNS := strings.Join(strings.Fields(l.uidMap), " ") == "0 0 4294967295"
	m := &MemlockError{Limit: l.limit, Pinned: kib << 10, Need: pages(start, length, l.page) * l.page}
	if caps>>ipcLock&1 == 1 && initialNS || m.Need <= m.Limit && m.Pinned <= m.Limit-m.Need {
		return nil
	}
	return m
}

// pages returns the number of pages that a range touches.
func pages(start, length, page uint64) uint64 {
	return (start%page+length%page+page-1)/page + length/page
}

// field returns the value of a key in such a file.
func field(status, key string) string {
	for line := range strings.Lines(status) {
		if k, v, ok := strings.Cut(line, ":"); ok && k == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
