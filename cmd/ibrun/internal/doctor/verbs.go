package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"github.com/ibrun/ibrun/hw"
)

// noDevices is the finding of a check that needs RDMA devices where there are none.
func noDevices() []Finding { return hint("there is no RDMA device to look at") }

// each runs a check for each RDMA device of this namespace.
func (h *Host) each(look func(d *hw.RDMADevice) []Finding) []Finding {
	var all []Finding
	for i := range h.Top.RDMA {
		if !h.Top.RDMA[i].OtherNetns {
			all = append(all, look(&h.Top.RDMA[i])...)
		}
	}
	if all == nil {
		return noDevices()
	}
	return all
}

// eachPort runs a check for each port.
func (h *Host) eachPort(look func(d *hw.RDMADevice, p *hw.RDMAPort) []Finding) []Finding {
	return h.each(func(d *hw.RDMADevice) (all []Finding) {
		for i := range d.Ports {
			all = append(all, look(d, &d.Ports[i])...)
		}
		return all
	})
}

// portName is how people name a port: mlx5_0/1.
func portName(d *hw.RDMADevice, p *hw.RDMAPort) string { return fmt.Sprintf("%s/%d", d.Name, p.Number) }

// verbsDevice looks for RDMA devices at all.
func verbsDevice(h *Host) []Finding {
	if len(h.Top.RDMA) == 0 {
		return finding(Info, "/sys/class/infiniband has no device",
			"messages between nodes go over TCP, with ten times the latency of RDMA",
			"to try RDMA without the hardware: ibrun soft-roce up NETDEV")
	}
	var all []Finding
	for _, d := range h.Top.RDMA {
		switch {
		case d.OtherNetns:
			all = append(all, finding(Info, d.Name+" belongs to another network namespace",
				"this process cannot use it, though /sys shows it",
				"rdma dev set "+d.Name+" netns NAME   # or docker run --network host")...)
		case len(d.Problems) > 0:
			all = append(all, finding(Warning, d.Name+": "+strings.Join(d.Problems, "; "),
				"what the kernel does not tell of a device "+
					"cannot be taken into account", "mount /sys of the host, readable")...)
		default:
			all = append(all, ok("%s, driver %s, firmware %s", d.Name, orNone(d.Driver), orNone(d.Firmware))...)
		}
	}
	return all
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// verbsOpen looks whether this process may open the devices.
func verbsOpen(h *Host) []Finding {
	return h.each(func(d *hw.RDMADevice) []Finding {
		file, has := d.Uverbs()
		o := d.AccessError
		switch {
		case !has:
			return finding(Error, d.Name+" has no uverbs file", "programs reach a device only through it", "modprobe ib_uverbs")
		case o == nil && !h.Live:
			return hint("whether %s can be opened, a captured tree does not tell", file.Path())
		case o == nil:
			return ok("%s (%s) can be opened", file.Path(), d.Name)
		}
		fix := "chmod 666 " + file.Path() + "   # udev's rule in rdma-core does it at boot"
		switch inside := h.container(); {
		case inside != "" && (errors.Is(o.Err, fs.ErrNotExist) || errors.Is(o.Err, syscall.EPERM)):
			fix = "docker run --device=/dev/infiniband ..."
			if inside == "kubernetes" || inside == "kubepods" {
				fix = "resources: {limits: {rdma/...: 1}} in the pod, and the RDMA device plugin on the node"
			}
		case errors.Is(o.Err, fs.ErrNotExist):
			fix = "modprobe ib_uverbs; udevadm trigger   # creates " + file.Path()
		}
		return finding(Error, fmt.Sprintf("%s (%s) cannot be opened: %s: %v", file.Path(), d.Name, o.Reason, o.Err),
			"programs see the device but cannot use it, and many fall back to TCP without a word", fix)
	})
}

// verbsCM looks for the connection manager, which other programs than ours need.
func verbsCM(h *Host) []Finding {
	if len(h.Top.RDMA) == 0 {
		return noDevices()
	}
	for _, d := range h.Top.RDMA {
		for _, c := range d.Chars {
			if c.Kind == "rdma_cm" {
				return ok("%s is there", c.Path())
			}
		}
	}
	return finding(Info, "there is no /dev/infiniband/rdma_cm", "ibrun does not need it; programs that connect with librdmacm do",
		"modprobe rdma_ucm")
}

// library returns the file of this name below a directory of libraries, "" when there is none. A star in the name may stand
// for anything within a directory of libibverbs, which has few files; the directories around it have thousands.
func (h *Host) library(name string) string {
	for _, dir := range []string{
		"usr/lib/*-linux-gnu*", "usr/lib64", "usr/local/lib", "usr/local/lib64", "usr/lib", "lib/*-linux-gnu*", "lib64",
	} {
		if found, err := fs.Glob(h.Root, path.Join(dir, name)); err == nil && len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

// verbsLibrary looks for libibverbs and the provider of each device. Soft-RoCE needs neither.
func verbsLibrary(h *Host) []Finding {
	const install = "apt-get install libibverbs1 ibverbs-providers   # dnf install libibverbs"
	return h.each(func(d *hw.RDMADevice) []Finding {
		if d.Provider == "rxe" {
			return ok("%s is driven through the kernel, without a library", d.Name)
		}
		lib := h.library("libibverbs.so.1")
		provider := h.library("libibverbs/lib" + d.Provider + "-rdmav*.so")
		switch {
		case lib == "" && !h.Live:
			return hint("whether libibverbs is installed, a captured tree does not tell")
		case lib == "":
			return finding(Error, "libibverbs.so.1 is not where distributions put it", d.Name+" is driven by it", install)
		case d.Provider == "":
			return hint("%s: of driver %s it is not known which library it needs", d.Name, orNone(d.Driver))
		case provider == "":
			return finding(Error, "/"+lib+" is there, lib"+d.Provider+"-rdmav*.so is not",
				"libibverbs needs it to drive "+d.Name, install)
		}
		return ok("%s is driven by /%s", d.Name, provider)
	})
}

// verbsDrivers explains the noise that libibverbs makes of providers that are configured and not installed.
func verbsDrivers(h *Host) []Finding {
	names, err := fs.Glob(h.Root, "etc/libibverbs.d/*.driver")
	if err != nil || len(names) == 0 {
		return hint("no provider is configured in /etc/libibverbs.d")
	}
	var missing []string
	for _, name := range names {
		text, err := h.text(name)
		if err != nil {
			return unknown("the provider in /"+name, err)
		}
		provider, found := strings.CutPrefix(strings.TrimSpace(text), "driver ")
		if found && h.library("libibverbs/lib"+path.Base(strings.TrimSpace(provider))+"-rdmav*.so") == "" {
			missing = append(missing, "lib"+path.Base(strings.TrimSpace(provider)))
		}
	}
	if len(missing) == 0 {
		return ok("all %d providers in /etc/libibverbs.d are installed", len(names))
	}
	return finding(Info, "providers are configured and not installed: "+strings.Join(missing, ", "),
		`every program that uses libibverbs warns "couldn't load driver"; without a device that needs them that is all`,
		"apt-get install --reinstall ibverbs-providers   # or remove their files in /etc/libibverbs.d")
}
