package link

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
)

// Add makes an rxe device called name on the network device netdev, which should be up. If the driver is not loaded it
// runs modprobe.
func Add(name, netdev string) error {
	fail := func(remedy string, err error) error {
		return &Error{Op: "add", Name: name, Netdev: netdev, Err: err, Remedy: remedy}
	}
	if err := checkName(name, maxName); err != nil {
		return fail("", err)
	}
	if err := checkName(netdev, maxNetdev); err != nil {
		return fail("", err)
	}
	if _, err := netlink.LinkByName(netdev); errors.As(err, new(netlink.LinkNotFoundError)) {
		return fail("`ip link` lists those that are here", fmt.Errorf("%w: %s", ErrNoNetdev, netdev))
	}
	if err := load(); err != nil {
		return fail(explain(err, loaded()))
	}
	if err := netlink.RdmaLinkAdd(name, "rxe", netdev); err != nil {
		return fail(explain(err, loaded()))
	}
	return nil
}

// Delete removes an rxe device. The kernel (6.1) does so as soon as nobody has it open any more, and until then Delete
// waits.
func Delete(name string) error {
	fail := func(remedy string, err error) error {
		return &Error{Op: "delete", Name: name, Err: err, Remedy: remedy}
	}
	if err := checkName(name, maxName); err != nil {
		return fail("", err)
	}
	links, err := List()
	if err != nil {
		return fail("", err)
	}
	if !slices.ContainsFunc(links, func(l Link) bool { return l.Name == name }) {
		return fail("`ibrun soft-roce show` lists those that are here", ErrNoLink)
	}
	if err := netlink.RdmaLinkDel(name); err != nil {
		return fail(explain(err, loaded()))
	}
	return nil
}

// devices is where the kernel shows RDMA devices.
const devices = "/sys/class/infiniband"

// List returns all rxe devices, sorted by name. A machine whose kernel has no rxe driver has none.
func List() ([]Link, error) { return list(os.DirFS(devices)) }

// list reads the devices from sysfs. Of all drivers only rxe shows the device below it as a file called "parent".
func list(sys fs.FS) ([]Link, error) {
	var links []Link
	parents, err := fs.Glob(sys, "*/parent")
	if err != nil {
		return nil, &Error{Op: "list", Err: err}
	}
	for _, file := range parents {
		netdev, err := fs.ReadFile(sys, file)
		name := filepath.Dir(file)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
			continue // deleted in this moment
		}
		if err != nil {
			return nil, &Error{Op: "list", Name: name, Err: err}
		}
		l := Link{Name: name, Netdev: string(bytes.TrimSpace(netdev)), State: "UNKNOWN"}
		// The file reads "4: ACTIVE".
		if state, err := fs.ReadFile(sys, name+"/ports/1/state"); err == nil {
			_, word, _ := strings.Cut(string(bytes.TrimSpace(state)), ": ")
			l.State = word
		}
		links = append(links, l)
	}
	return links, nil
}

// errDriver says that the driver could not be loaded.
var errDriver = errors.New("the kernel has no driver rdma_rxe")

// load makes sure that the driver is in the kernel. The kernel would ask for it itself, but only once the RDMA core
// is there, which nobody loads on a machine that never had such a device.
func load() error {
	if loaded() || os.Geteuid() != 0 {
		return nil // without permission the answer to the message says so
	}
	if said, err := exec.Command("modprobe", "rdma_rxe").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: modprobe rdma_rxe: %w %s", errDriver, err, bytes.TrimSpace(said))
	}
	return nil
}

// loaded tells whether the kernel has the driver.
func loaded() bool {
	_, err := os.Stat("/sys/module/rdma_rxe")
	return err == nil
}

// explain finds the reason behind an error of the kernel, and what helps.
func explain(err error, loaded bool) (remedy string, reason error) {
	switch {
	case errors.Is(err, errDriver), errors.Is(err, syscall.EPROTONOSUPPORT), errors.Is(err, syscall.EINVAL) && !loaded:
		reason, remedy = ErrNotSupported, needDriver
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES):
		reason, remedy = ErrPermission, "become root, outside of containers; and on a VLAN rxe makes none: use the device below it"
	case errors.Is(err, syscall.ENODEV):
		reason = ErrNoNetdev
	case errors.Is(err, syscall.ENFILE):
		reason, remedy = ErrNameInUse, "choose another name; `ls "+devices+"` lists those in use"
	case errors.Is(err, syscall.EEXIST):
		reason, remedy = ErrNetdevInUse, "`ibrun soft-roce show` shows it"
	case errors.Is(err, syscall.ENOENT):
		return "modprobe crc32_generic", fmt.Errorf("the kernel did not find what rxe needs: %w", err)
	default:
		return "", err
	}
	return remedy, fmt.Errorf("%w: %w", reason, err)
}

// needDriver says where the driver comes from.
const needDriver = `it takes a Linux kernel with CONFIG_RDMA_RXE, and "modprobe rdma_rxe" must work; the module is in the package
	linux-image-amd64                   Debian (its cloud kernels do not have it)
	linux-modules-extra-$(uname -r)     Ubuntu
	kernel-modules-extra                Fedora, RHEL
in a container it is the host's kernel that needs it; to boot a guest with a kernel of its own:
	go run github.com/ibrun/ibrun/soft-roce/vm -- COMMAND`
