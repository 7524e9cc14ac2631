// Package uverbs is the command channel to a device: it opens /dev/infiniband/uverbsN and runs the kernel's verbs commands. It
// does not access queues, which belong to the drivers. [Driver] is the part of a command that belongs to a driver.
//
//	ctx, err := uverbs.Open(device)
//	defer ctx.Close()
//	pd, err := ctx.AllocPD(uverbs.Driver{})
//	mr, err := ctx.RegMR(abi.RegMR{PDHandle: pd, Start: addr, Length: n, HCAVA: addr, AccessFlags: access}, uverbs.Driver{})
//
// [Find] returns the device with a given name, for programs that do not read sysfs.
//
// Arguments and results are the kernel's structs, described in internal/abi/uverbs. This package fills in the field Response.
// Handles belong to the kernel and are valid in one context. A context may be used by any goroutine at any time. A command that
// waits in the kernel, as those that resolve addresses do, does not block other commands. Close destroys all remaining objects.
//
// Commands use write(2), which every kernel with verbs has. Only the GID table needs ioctl(2). A command is written from one
// block of memory, which has space for the response after the command, see frame_unsafe.go. [Doorbell] and [Notifier] are
// commands that are encoded once. Running them allocates nothing.
//
// Every error is an [Error] and unwraps to the errno.
//
// A context calls the operating system through [Kernel], so that a test can simulate the device: it receives every command and
// writes the responses.
package uverbs
