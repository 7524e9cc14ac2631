package qemu

import (
	"fmt"
	"strconv"
	"strings"
)

// Program is the command that is started.
const Program = "qemu-system-x86_64"

// Accel is the QEMU accelerator, which executes the instructions of the guest.
type Accel string

// Hardware virtualisation, and emulation.
const (
	KVM Accel = "kvm"
	TCG Accel = "tcg"
)

// Config is the configuration of a machine.
type Config struct {
	Accel          Accel
	Kernel, Initrd string // files
	CPUs           int
	Memory         int    // MiB
	Port           string // the name of the serial port in the guest
	MountTag       string // 9p tag of the host's root directory
	// Number distinguishes machines on the same wire: it is part of the MAC address.
	Number int
}

// Descriptors that the machine inherits.
const (
	channelFD = 3
	wireFD    = 4
)

// arguments returns the arguments without paths. A machine with a wire inherits the descriptor wireFD.
func (c Config) arguments(wire bool) []string {
	accel, cpu := "kvm", "host"
	if c.Accel == TCG {
		// Switch off features that make the emulation slower: fast string instructions, which are emulated byte by byte, and checks
		// of every access.
		accel, cpu = "tcg,thread=multi", "max,erms=off,fsrm=off,la57=off,smap=off,smep=off"
	}
	netdev := "user,id=net,restrict=on,ipv6=off" // an unconnected network card
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

// bootLine is the command line of the kernel. panic=-1 makes it reboot immediately after a panic; with -no-reboot this ends the
// machine. no_timer_check: on a busy host an emulated timer can be so late that the kernel concludes that it does not work, and
// stops. tsc=reliable: otherwise an emulated machine uses a device as its clock, and every read of it exits from the guest.
const bootLine = "console=ttyS0 panic=-1 oops=panic quiet mitigations=off random.trust_cpu=on cryptomgr.notests no_timer_check " +
	"tsc=reliable"

// boot returns the arguments with paths, which may contain spaces.
func (c Config) boot() []string {
	return []string{"-kernel", c.Kernel, "-initrd", c.Initrd, "-append", bootLine}
}
