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

// Add creates an rxe device called name on the network device netdev, which should be up. If the driver is not loaded, Add
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
		return fail("`ip link` lists the network devices", fmt.Errorf("%w: %s", ErrNoNetdev, netdev))
	}
	if err := loadDriver(); err != nil {
		return fail(explainError(err, driverLoaded()))
	}
	if err := netlink.RdmaLinkAdd(name, "rxe", netdev); err != nil {
		return fail(explainError(err, driverLoaded()))
	}
	return nil
}

// Delete removes an rxe device. The kernel (6.1) removes it when no process has it open any more; Delete blocks until then.
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
		return fail("`ibrun soft-roce show` lists the links", ErrNoLink)
	}
	if err := netlink.RdmaLinkDel(name); err != nil {
		return fail(explainError(err, driverLoaded()))
	}
	return nil
}

// sysfsDir is the directory of RDMA devices in sysfs.
const sysfsDir = "/sys/class/infiniband"

// List returns all rxe devices, sorted by name. It returns none if the kernel has no rxe driver.
func List() ([]Link, error) { return readLinks(os.DirFS(sysfsDir)) }

// readLinks reads the devices from sysfs. Only rxe has a file "parent" with the name of the underlying network device.
func readLinks(sys fs.FS) ([]Link, error) {
	var links []Link
	parents, err := fs.Glob(sys, "*/parent")
	if err != nil {
		return nil, &Error{Op: "list", Err: err}
	}
	for _, file := range parents {
		netdev, err := fs.ReadFile(sys, file)
		name := filepath.Dir(file)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
			continue // deleted concurrently
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

// errDriver reports that the driver could not be loaded.
var errDriver = errors.New("the kernel has no driver rdma_rxe")

// loadDriver loads the driver if necessary. The kernel would load it itself, but only if the RDMA core is loaded. That is not
// the case on a machine that never had an RDMA device.
func loadDriver() error {
	if driverLoaded() || os.Geteuid() != 0 {
		return nil // without permission the netlink request fails, and its error explains why
	}
	if output, err := exec.Command("modprobe", "rdma_rxe").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: modprobe rdma_rxe: %w %s", errDriver, err, bytes.TrimSpace(output))
	}
	return nil
}

// driverLoaded reports whether the kernel has the driver.
func driverLoaded() bool {
	_, err := os.Stat("/sys/module/rdma_rxe")
	return err == nil
}

// explainError returns the reason for an error of the kernel, and a remedy.
func explainError(err error, loaded bool) (remedy string, reason error) {
	switch {
	case errors.Is(err, errDriver), errors.Is(err, syscall.EPROTONOSUPPORT), errors.Is(err, syscall.EINVAL) && !loaded:
		reason, remedy = ErrNotSupported, needDriver
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES):
		reason = ErrPermission
		remedy = "become root, outside containers; rxe does not support VLAN devices: use the underlying device"
	case errors.Is(err, syscall.ENODEV):
		reason = ErrNoNetdev
	case errors.Is(err, syscall.ENFILE):
		reason, remedy = ErrNameInUse, "choose another name; `ls "+sysfsDir+"` lists those in use"
	case errors.Is(err, syscall.EEXIST):
		reason, remedy = ErrNetdevInUse, "`ibrun soft-roce show` shows that link"
	case errors.Is(err, syscall.ENOENT):
		return "modprobe crc32_generic", fmt.Errorf("the kernel lacks a module that rxe needs: %w", err)
	default:
		return "", err
	}
	return remedy, fmt.Errorf("%w: %w", reason, err)
}

// needDriver is the remedy for a missing driver.
const needDriver = `Soft-RoCE requires Linux with CONFIG_RDMA_RXE, and "modprobe rdma_rxe" must work; packages with the module:
	linux-image-amd64                   Debian (its cloud kernels do not have it)
	linux-modules-extra-$(uname -r)     Ubuntu
	kernel-modules-extra                Fedora, RHEL
in a container the kernel of the host needs it; to boot a virtual machine with its own kernel:
	go run github.com/ibrun/ibrun/soft-roce/vm -- COMMAND`
