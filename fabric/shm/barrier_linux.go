package shm

import "golang.org/x/sys/unix"

// Commands of membarrier(2), from the kernel's include/uapi/linux/membarrier.h.
const (
	membarrierGlobalExpedited         = 1 << 1
	membarrierRegisterGlobalExpedited = 1 << 2
)

func membarrier(cmd uintptr) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_MEMBARRIER, cmd, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// registerBarrier lets this process take part in barriers and reports whether it can also ask for one.
func registerBarrier() bool {
	return membarrier(membarrierRegisterGlobalExpedited) == nil && membarrier(membarrierGlobalExpedited) == nil
}
