package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/soft-roce/link"
)

// Init is the first process of a guest. When the guest cannot continue, because something is missing or the host has closed the
// channel, it prints the error on the console and reboots. QEMU then ends, because of -no-reboot.
func Init() {
	fmt.Fprintf(os.Stderr, "vm: %v\n", start())
	// If this fails, the first process ends and the kernel panics, which also ends the machine.
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
}

// start brings the guest up, and returns when it cannot continue.
func start() error {
	text, err := os.ReadFile("/" + ConfigFile)
	if err != nil {
		return err
	}
	var c Config
	if err := json.Unmarshal(text, &c); err != nil {
		return fmt.Errorf("%s: %w", ConfigFile, err)
	}
	for _, step := range []func(*Config) error{mountKernel, loadModules, mountHost, network, device, limits} {
		if err := step(&c); err != nil {
			return err
		}
	}
	os.Setenv("PATH", c.Bin+":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	agent := exec.Command(filepath.Join(c.Bin, "vm"), AgentWord, string(text))
	agent.Stdout, agent.Stderr = os.Stdout, os.Stderr
	if err := agent.Start(); err != nil {
		return fmt.Errorf("start the agent: %w", err)
	}
	return reap(agent.Process.Pid)
}

// reap waits for the agent and for orphaned processes. It returns when the agent ends.
func reap(agent int) error {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("wait: %w", err)
		case pid == agent:
			return fmt.Errorf("the agent ended: wait status %d", status)
		}
	}
}

// mount is one mount operation.
type mount struct {
	what, where, kind string
	flags             uintptr
	options           string
}

func (m mount) execute() error {
	if err := os.MkdirAll(m.where, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(m.what, m.where, m.kind, m.flags, m.options); err != nil {
		return fmt.Errorf("mount %s on %s: %w", m.kind, m.where, err)
	}
	return nil
}

func mountKernel(*Config) error {
	return errors.Join(
		mount{what: "proc", where: "/proc", kind: "proc"}.execute(),
		mount{what: "sys", where: "/sys", kind: "sysfs"}.execute(),
		mount{what: "dev", where: "/dev", kind: "devtmpfs"}.execute())
}

// moduleParameters are the parameters of modules, which otherwise are loaded without any.
var moduleParameters = map[string]string{"bonding": "max_bonds=0"} // makes no bond of its own

// loadModules loads the modules in the order of their names, which begin with a number.
func loadModules(*Config) error {
	files, err := filepath.Glob("/" + ModuleDir + "/*.ko")
	if err != nil {
		return err
	}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		_, name, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".ko"), "-")
		err = unix.FinitModule(int(f.Fd()), moduleParameters[name], 0)
		f.Close()
		// ENODEV: the processor lacks the instructions that the module uses. The guest works without the module.
		if err != nil && !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("load %s: %w", filepath.Base(file), err)
		}
	}
	return nil
}

// mountHost makes the host's files the root, read only.
func mountHost(c *Config) error {
	const host, root = "/host", "/root"
	files := mount{MountTag, host, "9p", unix.MS_RDONLY, "trans=virtio,version=9p2000.L,msize=262144,cache=loose"}
	if err := files.execute(); err != nil {
		return err
	}
	mounts := []mount{{what: host, where: root, flags: unix.MS_BIND}}
	for _, dir := range []string{"/proc", "/sys", "/dev"} {
		mounts = append(mounts, mount{what: dir, where: root + dir, flags: unix.MS_MOVE})
	}
	mounts = append(mounts, mount{what: "pts", where: root + "/dev/pts", kind: "devpts", options: "ptmxmode=666"})
	for _, dir := range tmpfsDirs {
		mounts = append(mounts, mount{what: "tmpfs", where: root + dir, kind: "tmpfs", options: "mode=1777"})
	}
	for _, dir := range c.Keep {
		mounts = append(mounts, mount{what: host + dir, where: root + dir, flags: unix.MS_BIND})
	}
	for _, m := range mounts {
		if err := m.execute(); err != nil {
			return err
		}
	}
	for _, link := range [][2]string{{"/proc/self/fd", "fd"}, {"fd/0", "stdin"}, {"fd/1", "stdout"}, {"fd/2", "stderr"}} {
		if err := os.Symlink(link[0], root+"/dev/"+link[1]); err != nil {
			return err
		}
	}
	if err := unix.Chroot(root); err != nil {
		return fmt.Errorf("chroot: %w", err)
	}
	return os.Chdir("/")
}

// network gives the guest its address.
func network(c *Config) error {
	address := &net.IPNet{IP: net.ParseIP(c.Addrs[c.Node]), Mask: net.CIDRMask(24, 32)}
	for _, name := range []string{"lo", Netdev} {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("network device %s: %w", name, err)
		}
		if name == Netdev {
			if err := netlink.AddrAdd(l, &netlink.Addr{IPNet: address}); err != nil {
				return fmt.Errorf("give %s the address %s: %w", name, address, err)
			}
		}
		if err := netlink.LinkSetUp(l); err != nil {
			return fmt.Errorf("set %s up: %w", name, err)
		}
	}
	return unix.Sethostname(fmt.Appendf(nil, "n%d", c.Node))
}

func device(*Config) error { return link.Add(Device, Netdev) }

// limits raises the limit of open files, which is low in the first process. Other limits do not apply to root.
func limits(*Config) error {
	const descriptors = 1 << 20
	limit := unix.Rlimit{Cur: descriptors, Max: descriptors}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("allow %d descriptors: %w", descriptors, err)
	}
	return nil
}

// openPort opens the channel to the host. The device file has a number; the name of the port is in sysfs.
func openPort() (*os.File, error) {
	names, err := filepath.Glob("/sys/class/virtio-ports/*/name")
	if err != nil {
		return nil, err
	}
	for _, file := range names {
		name, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if strings.TrimSpace(string(name)) == PortName {
			return os.OpenFile("/dev/"+filepath.Base(filepath.Dir(file)), os.O_RDWR, 0)
		}
	}
	return nil, fmt.Errorf("virtual serial port %s: %w", PortName, fs.ErrNotExist)
}
