package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/tunables"
)

// noDevicesFinding returns the finding of a check that needs RDMA devices if there are none.
func noDevicesFinding() []Finding { return infoFinding("there is no RDMA device") }

// forEachDevice runs a check for each RDMA device of this namespace.
func (h *Host) forEachDevice(check func(d *hw.RDMADevice) []Finding) []Finding {
	var all []Finding
	for i := range h.Top.RDMA {
		if !h.Top.RDMA[i].OtherNetns {
			all = append(all, check(&h.Top.RDMA[i])...)
		}
	}
	if all == nil {
		return noDevicesFinding()
	}
	return all
}

// forEachPort runs a check for each port.
func (h *Host) forEachPort(check func(d *hw.RDMADevice, p *hw.RDMAPort) []Finding) []Finding {
	return h.forEachDevice(func(d *hw.RDMADevice) (all []Finding) {
		for i := range d.Ports {
			all = append(all, check(d, &d.Ports[i])...)
		}
		return all
	})
}

// portName returns the usual name of a port: mlx5_0/1.
func portName(d *hw.RDMADevice, p *hw.RDMAPort) string { return fmt.Sprintf("%s/%d", d.Name, p.Number) }

// verbsDevice checks whether there are RDMA devices.
func verbsDevice(h *Host) []Finding {
	if len(h.Top.RDMA) == 0 {
		return newFinding(Info, "/sys/class/infiniband has no device",
			"messages between nodes travel over TCP, with ten times the latency of RDMA", "")
	}
	var all []Finding
	for _, d := range h.Top.RDMA {
		switch {
		case d.OtherNetns:
			all = append(all, newFinding(Info, d.Name+" belongs to another network namespace",
				"this process cannot use it, although /sys shows it",
				"rdma dev set "+d.Name+" netns NAME   # or docker run --network host")...)
		case !supported(&d):
			all = append(all, newFinding(Info, fmt.Sprintf("%s is a device of type %s, which ibrun does not support", d.Name, d.Type),
				"ibrun uses other devices, or TCP", otherMode(&d))...)
		case len(d.Problems) > 0:
			all = append(all, newFinding(Warning, d.Name+": "+strings.Join(d.Problems, "; "),
				"properties that the kernel does not report "+
					"cannot be checked", "mount /sys of the host, readable")...)
		default:
			all = append(all, okFinding("%s, driver %s, firmware %s", d.Name, orNone(d.Driver), orNone(d.Firmware))...)
		}
	}
	return all
}

// otherMode returns the command that makes a device usable, if there is one.
func otherMode(d *hw.RDMADevice) string {
	if d.Provider == "irdma" && d.PCI != "" {
		return fmt.Sprintf("devlink dev param set pci/%s name enable_iwarp value false cmode runtime; devlink dev param set "+
			"pci/%[1]s name enable_roce value true cmode runtime", d.PCI)
	}
	return ""
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// verbsOpen checks whether this process may open the devices.
func verbsOpen(h *Host) []Finding {
	return h.forEachDevice(func(d *hw.RDMADevice) []Finding {
		file, has := d.Uverbs()
		o := d.AccessError
		switch {
		case d.Type == hw.NodeRNIC:
			return newFinding(Info, d.Name+" is an iWARP device", "ibrun does not use it: iWARP needs a connection manager; TCP is used",
				"switch the adapter to RoCE v2, if it has that mode")
		case !has:
			return newFinding(Error, d.Name+" has no uverbs file", "programs access a device only through it", "modprobe ib_uverbs")
		case o == nil && !h.Live:
			return infoFinding("a captured tree has no devices: whether %s can be opened is unknown", file.Path())
		case o == nil:
			return okFinding("%s (%s) can be opened", file.Path(), d.Name)
		}
		fix := "chmod 666 " + file.Path() + "   # udev's rule in rdma-core does it at boot"
		switch inside := h.container(); {
		case inside != "" && (errors.Is(o.Err, fs.ErrNotExist) || errors.Is(o.Err, syscall.EPERM)):
			fix = "docker run --device=/dev/infiniband ..."
			if inside == "kubernetes" || inside == "kubepods" {
				fix = "resources: {limits: {rdma/...: 1}} in the pod, and the RDMA device plugin on the node"
			}
		case errors.Is(o.Err, errors.ErrUnsupported): // Soft-RoCE in another network namespace
			fix = "docker run --network host ...   # or nsenter --net=/proc/1/ns/net"
		case errors.Is(o.Err, fs.ErrNotExist):
			fix = "modprobe ib_uverbs; udevadm trigger   # creates " + file.Path()
		}
		return newFinding(Error, fmt.Sprintf("%s (%s) cannot be opened: %s: %v", file.Path(), d.Name, o.Reason, o.Err),
			"programs see the device but cannot use it, and many silently fall back to TCP", fix)
	})
}

// jobsUse reports whether jobs can use a port: one was opened as a job does it.
func (h *Host) jobsUse(port string) bool {
	err, asked := h.Refused[port]
	return asked && err == nil
}

// verbsUse checks whether jobs can use the active ports: it asks what a job asks of them.
func verbsUse(h *Host) []Finding {
	if !h.Live {
		return infoFinding("a captured tree has no devices: whether jobs can use them is unknown")
	}
	usable := map[string]bool{}
	all := h.forEachUsable(func(d *hw.RDMADevice, p *hw.RDMAPort) []Finding {
		name := portName(d, p)
		usable[name] = true
		switch err, asked := h.Refused[name]; {
		case !asked:
			return infoFinding("%s is not used by jobs, by the settings", name)
		case err != nil:
			return newFinding(Error, name+": "+strings.ReplaceAll(err.Error(), "\n", "; "), h.usedInstead(),
				"ibrun explain --transport rdma   # shows what is used instead")
		}
		return okFinding("jobs can use %s", name)
	})
	if h.Getenv(tunables.RDMADevices) != "" {
		for _, name := range sortedKeys(h.Refused) {
			if err := h.Refused[name]; err != nil && !usable[name] {
				all = append(all, h.namedRefused(name, err)...)
			}
		}
	}
	if all == nil {
		return infoFinding("there is no active RDMA port that this process can open")
	}
	return all
}

// namedRefused returns the finding about what IBRUN_RDMA_DEVICES names and jobs cannot use: a device or a port that does not
// exist or is not active.
func (h *Host) namedRefused(name string, err error) []Finding {
	fix := "unset " + tunables.RDMADevices + "   # or name devices that ibrun topo shows"
	device, port, _ := strings.Cut(name, "/")
	if i := slices.IndexFunc(h.Top.RDMA, func(d hw.RDMADevice) bool { return d.Name == device }); i >= 0 {
		d := &h.Top.RDMA[i]
		j := slices.IndexFunc(d.Ports, func(p hw.RDMAPort) bool { return port == "" || strconv.Itoa(p.Number) == port })
		switch {
		case d.OtherNetns || !supported(d):
			fix = "unset " + tunables.RDMADevices + "   # or name devices of this network namespace that ibrun supports"
		case d.AccessError != nil:
			return nil // reported by the check of opening
		case j < 0:
			fix = "unset " + tunables.RDMADevices + "   # or name ports that ibrun topo shows"
		case d.Ports[j].State != hw.PortActive:
			fix = linkUpFix(&d.Ports[j], "check the cable, then: ibstat "+d.Name) + "   # or unset " + tunables.RDMADevices
		}
	}
	return newFinding(Warning, strings.ReplaceAll(err.Error(), "\n", "; "), h.usedInstead(), fix)
}

// usedInstead says what jobs use instead of a device that they cannot use.
func (h *Host) usedInstead() string {
	if h.Getenv(tunables.RDMADevices) != "" {
		return "jobs use only the devices that " + tunables.RDMADevices + " names before this one, or TCP"
	}
	return "jobs use another device, or TCP"
}

// verbsCM checks for the connection manager, which ibrun does not need, but other programs do.
func verbsCM(h *Host) []Finding {
	if len(h.Top.RDMA) == 0 {
		return noDevicesFinding()
	}
	for _, d := range h.Top.RDMA {
		for _, c := range d.Chars {
			if c.Kind == "rdma_cm" {
				return okFinding("%s exists", c.Path())
			}
		}
	}
	return newFinding(Info, "there is no /dev/infiniband/rdma_cm", "ibrun does not need it; programs that connect with librdmacm do",
		"modprobe rdma_ucm")
}

// findLibrary returns the path of a file in a library directory, or "" if there is none. The directories of LD_LIBRARY_PATH come
// first, as for the dynamic linker. The name may have a star only within the libibverbs directory, which has few files: the
// library directories have thousands.
func (h *Host) findLibrary(name string) string {
	var dirs []string
	for _, dir := range filepath.SplitList(h.Getenv("LD_LIBRARY_PATH")) {
		if filepath.IsAbs(dir) {
			dirs = append(dirs, strings.TrimPrefix(filepath.Clean(dir), "/"))
		}
	}
	for _, dir := range append(dirs,
		"usr/lib/*-linux-gnu*", "usr/lib64", "usr/local/lib", "usr/local/lib64", "usr/lib", "lib/*-linux-gnu*", "lib64") {
		if found, err := fs.Glob(h.Root, path.Join(dir, name)); err == nil && len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

// verbsLibrary checks for libibverbs and the provider of each device. Soft-RoCE needs neither.
func verbsLibrary(h *Host) []Finding {
	const install = "apt-get install libibverbs1 ibverbs-providers   # dnf install libibverbs"
	return h.forEachDevice(func(d *hw.RDMADevice) []Finding {
		if d.Provider == "rxe" {
			return okFinding("%s is used through the kernel, without a library", d.Name)
		}
		lib := h.findLibrary("libibverbs.so.1")
		provider := h.findLibrary("libibverbs/lib" + d.Provider + "-rdmav*.so")
		switch {
		case lib == "" && !h.Live:
			return infoFinding("a captured tree has no libraries: whether libibverbs is installed is unknown")
		case lib == "":
			return newFinding(Error, "libibverbs.so.1 is not in the library directories", d.Name+" needs it", install)
		case d.Provider == "":
			return infoFinding("%s: the library for driver %s is unknown", d.Name, orNone(d.Driver))
		case provider == "":
			return newFinding(Error, "/"+lib+" is installed, but lib"+d.Provider+"-rdmav*.so is missing",
				"libibverbs needs it for "+d.Name, install)
		}
		return okFinding("%s is supported by /%s", d.Name, provider)
	})
}

// verbsDrivers checks for providers that are configured but not installed: libibverbs prints warnings about them.
func verbsDrivers(h *Host) []Finding {
	names, err := fs.Glob(h.Root, "etc/libibverbs.d/*.driver")
	if err != nil || len(names) == 0 {
		return infoFinding("no provider is configured in /etc/libibverbs.d")
	}
	var missing []string
	for _, name := range names {
		text, err := h.readText(name)
		if err != nil {
			return unknownFinding("the provider in /"+name, err)
		}
		provider, found := strings.CutPrefix(strings.TrimSpace(text), "driver ")
		if found && h.findLibrary("libibverbs/lib"+path.Base(strings.TrimSpace(provider))+"-rdmav*.so") == "" {
			missing = append(missing, "lib"+path.Base(strings.TrimSpace(provider)))
		}
	}
	if len(missing) == 0 {
		return okFinding("all %d providers in /etc/libibverbs.d are installed", len(names))
	}
	return newFinding(Info, "providers are configured but not installed: "+strings.Join(missing, ", "),
		`every program that uses libibverbs warns "couldn't load driver"; the warning is harmless unless a device needs them`,
		"apt-get install --reinstall ibverbs-providers   # or remove their files in /etc/libibverbs.d")
}
