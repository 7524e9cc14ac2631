// Package uverbs is the command channel to a device: it opens /dev/infiniband/uverbsN and runs the kernel's verbs commands. It
// knows nothing of queues, which belong to the drivers; what a driver adds to a command travels in [Driver].
//
//	ctx, err := uverbs.Open(device)
//	defer ctx.Close()
//	pd, err := ctx.AllocPD(uverbs.Driver{})
//	mr, err := ctx.RegMR(abi.RegMR{PDHandle: pd, Start: addr, Length: n, HCAVA: addr, AccessFlags: access}, uverbs.Driver{})
//
// [Find] makes the device of a name, for those who have not read sysfs.
//
// Arguments and results are the kernel's structs, described in internal/abi/uverbs; the field Response is filled in here. Handles
// are the kernel's, valid in one context. A context may be used by any goroutine at any time; a command that waits in the kernel,
// as those that resolve addresses do, holds up nobody else. Whatever is left is destroyed by Close.
//
// Commands go through write(2), which every kernel with verbs has; only the GID table needs ioctl(2). A command is written from
// one piece of memory that has room for the answer behind it, see frame_unsafe.go. [Doorbell] and [Notifier] are commands
// prepared once, and running them allocates nothing.
//
// Every error is an [Error] and unwraps to the errno.
//
// What a context asks of the operating system is [Kernel], so that a test can stand in for the device: it sees every command, and
// writes the answers.
package uverbs
