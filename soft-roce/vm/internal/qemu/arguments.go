package qemu

import (
	"fmt"
	"strconv"
	"strings"
)

// Program is the command that is started.
const Program = "qemu-system-x86_64"

// Accel is what runs the guest's instructions.
type Accel string

// The two that are used: the processor's own virtualisation, and emulation.
const (
	KVM Accel = "kvm"
	TCG Accel = "tcg"
)

// Config is one machine.
type Config struct {
	Accel          Accel
	Kernel, Initrd string // files
	CPUs           int
	Memory         int    // MiB
	Port           string // the name of the serial port in the guest
	MountTag       string // what the guest mounts the host's root by
	// Wire tells machines on the same wire apart: the network card is number Wire. It is ignored without a wire.
	Number int
}

// Descriptors that the machine inherits.
const (
	channelFD = 3
	wireFD    = 4
)

// arguments are what follows the program's name. A machine with a wire has the descriptor wireFD.
func (c Config) arguments(wire bool) []string {
	accel, cpu := "kvm", "host"
	if c.Accel == TCG {
		// Without what makes a processor faster and its emulation slower: string instructions, which are emulated byte by byte,
		// and checks at every access.
		accel, cpu = "tcg,thread=multi", "max,erms=off,fsrm=off,la57=off,smap=off,smep=off"
	}
	netdev := "user,id=net,restrict=on,ipv6=off" // a card whose wire ends nowhere
	if wire {
		netdev = "socket,id=net,fd=" + strconv.Itoa(wireFD)
	}
	return strings.Fields(fmt.Sprintf(`
		-nodefaults -no-user-config -no-reboot -display none -machine pc,usb=off -accel %s -cpu %s -smp %d -m %d
		-chardev stdio,id=console,signal=off -serial chardev:console
		-netdev %s -device virtio-net-pci,netdev=net,mac=52:54:00:00:00:%02x,romfile=
		-device virtio-serial-pci -chardev socket,id=port,fd=%d -device virtserialport,chardev=port,name=%s
		-fsdev local,id=host,path=/,security_model=none,readonly=on,multidevs=remap
		-device virtio-9p-pci,fsdev=host,mount_tag=%s`,
		accel, cpu, c.CPUs, c.Memory, netdev, c.Number+1, channelFD, c.Port, c.MountTag))
}

// bootLine is what the kernel is told. panic=-1 makes it start anew at once when it cannot go on, which -no-reboot
// turns into the end of the machine. no_timer_check: on a busy host an emulated timer can come so late that the kernel finds
// that it does not work, and stops. tsc=reliable: otherwise the clock of an emulated machine is a device, and every look at it
// leaves the guest.
const bootLine = "console=ttyS0 panic=-1 oops=panic quiet mitigations=off random.trust_cpu=on cryptomgr.notests no_timer_check " +
	"tsc=reliable"

// boot are the arguments that have paths in them, which may have spaces.
func (c Config) boot() []string {
	return []string{"-kernel", c.Kernel, "-initrd", c.Initrd, "-append", bootLine}
}
