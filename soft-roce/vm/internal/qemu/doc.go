// Package qemu starts virtual machines and ends them.
//
//	m, err := qemu.Start(qemu.Config{Accel: qemu.TCG, Kernel: vmlinuz, Initrd: image, ...})
//	...
//	m.Channel // the host's end of the guest's serial port
//	m.Kill()
//	m.Console() // the end of the console output of the guest
//
// A machine has one network device, the files of the host read only, and one byte channel. It ends when the process that
// started it ends for any reason.
package qemu
