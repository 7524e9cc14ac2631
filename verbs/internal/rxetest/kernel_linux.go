package rxetest

import "golang.org/x/sys/unix"

// UnreadEvents returns how many asynchronous events were raised and not read yet. There is room for some hundreds at least.
func (k *Kernel) UnreadEvents() (int, error) {
	const eventBytes = 16
	n, err := unix.IoctlGetInt(k.async.read, unix.TIOCINQ)
	return n / eventBytes, err
}
