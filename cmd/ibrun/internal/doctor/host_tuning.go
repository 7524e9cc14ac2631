package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/ibrun/ibrun/hw"
)

// hostNUMA checks whether the RDMA devices are near the cores that this process may use.
func hostNUMA(h *Host) []Finding {
	return h.forEachDevice(func(d *hw.RDMADevice) []Finding {
		path := h.Top.PathFrom(h.Top.Allowed, d.Location())
		evidence := fmt.Sprintf("%s is on NUMA node %d, the allowed PUs are %s: %s", d.Name, d.NUMA,
			hw.FormatList(h.Top.Allowed), path)
		switch path {
		case hw.PathUnknown:
			return infoFinding("the machine does not report where %s is attached", d.Name)
		case hw.PathSys:
			return newFinding(Warning, evidence, "all traffic crosses between packages: higher latency, less bandwidth",
				"taskset -c "+hw.FormatList(d.LocalPUs)+" ibrun ...   # or ask the scheduler for these cores")
		case hw.PathNode:
			return newFinding(Info, evidence, "all traffic crosses between NUMA nodes",
				"taskset -c "+hw.FormatList(d.LocalPUs)+" ibrun ...")
		}
		return okFinding("%s", evidence)
	})
}

// hostIOMMU checks whether the IOMMU translates the addresses of devices.
func hostIOMMU(h *Host) []Finding {
	names, err := fs.Glob(h.Root, "sys/kernel/iommu_groups/*/type")
	if err != nil {
		return unknownFinding("the IOMMU", err)
	}
	var through, translated int
	for _, name := range names {
		text, err := h.readText(name)
		switch {
		case err != nil:
			return unknownFinding("the mode of the IOMMU", err)
		case text == "identity":
			through++
		default: // DMA, DMA-FQ
			translated++
		}
	}
	switch {
	case len(names) == 0 && !h.Live: // captured trees have no empty directories
		return infoFinding("the captured tree has no IOMMU: none is enabled, or it was not captured")
	case len(names) == 0:
		return okFinding("no IOMMU is enabled")
	case translated == 0:
		return okFinding("the IOMMU passes through the addresses of all %d device groups", through)
	}
	return newFinding(Info, fmt.Sprintf("the IOMMU translates the addresses of %d device groups, and passes through those "+
		"of %d", translated, through),
		"each transfer may need an address lookup, and transfers between devices take a detour", "kernel command line: iommu=pt")
}

// hostACS reports GPUs and NICs below the same PCI switch, where access control services (ACS) may cause detours.
func hostACS(h *Host) []Finding {
	for i := range h.Top.GPUs {
		for j := range h.Top.RDMA {
			g, d := &h.Top.GPUs[i], &h.Top.RDMA[j]
			if path := h.Top.PathBetween(g.Location(), d.Location()); path == hw.PathPIX || path == hw.PathPXB {
				return newFinding(Info, fmt.Sprintf("%s and %s are below one PCI switch (%s); only root can check whether it "+
					"routes their traffic through the CPU",
					g.Name, d.Name, path), "if access control services are enabled, transfers between GPU and NIC take a detour",
					"lspci -vvv | grep ACSCtl   # should print SrcValid-; setpci disables it")
			}
		}
	}
	return okFinding("no GPU shares a PCI switch with an RDMA device")
}

// hostHugepages checks whether huge pages are reserved.
func hostHugepages(h *Host) []Finding {
	total, err := h.readField("proc/meminfo", "HugePages_Total")
	if err != nil {
		return unknownFinding("the number of huge pages", err)
	}
	if total != "0" {
		return okFinding("%s huge pages are reserved", total)
	}
	if len(h.Top.RDMA) == 0 {
		return infoFinding("no huge pages are reserved")
	}
	return newFinding(Info, "no huge pages are reserved",
		"devices translate addresses of large registered buffers faster with huge pages; ibrun does not need them",
		"sysctl vm.nr_hugepages=1024")
}

// hostTHP checks whether the kernel uses transparent huge pages.
func hostTHP(h *Host) []Finding {
	text, err := h.readText("sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil {
		return unknownFinding("the use of transparent huge pages", err)
	}
	_, rest, _ := strings.Cut(text, "[")
	mode, _, found := strings.Cut(rest, "]")
	switch {
	case !found:
		return infoFinding("the use of transparent huge pages is unknown: %q", text)
	case mode == "never":
		return newFinding(Info, "transparent huge pages are off", "address translation for large arrays is slower",
			"echo madvise > /sys/kernel/mm/transparent_hugepage/enabled")
	}
	return okFinding("transparent huge pages: %s", mode)
}

// hostGovernor checks whether the cores run at full frequency.
func hostGovernor(h *Host) []Finding {
	count := map[string]int{}
	for _, pu := range h.Top.Allowed {
		text, err := h.readText(fmt.Sprintf("sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor", pu))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return unknownFinding("the frequency governor of PU "+strconv.Itoa(pu), err)
		}
		if err == nil {
			count[text]++
		}
	}
	switch {
	case len(count) == 0 && !h.Live:
		return infoFinding("the captured tree has no frequency governor: the kernel has none, or it was not captured")
	case len(count) == 0:
		return okFinding("the kernel does not control the frequency of cores")
	case len(count) == 1 && count["performance"] > 0:
		return okFinding("all cores run at full frequency")
	}
	var words []string
	for _, name := range sortedKeys(count) {
		words = append(words, fmt.Sprintf("%s on %d PUs", name, count[name]))
	}
	return newFinding(Info, "the frequency governor is "+strings.Join(words, ", "),
		"idle cores respond later, and measurements vary",
		"cpupower frequency-set -g performance")
}

// hostIRQBalance checks whether irqbalance runs, which moves interrupts.
func hostIRQBalance(h *Host) []Finding {
	entries, err := fs.ReadDir(h.Root, "proc")
	if err != nil {
		return unknownFinding("whether irqbalance runs", err)
	}
	processes := 0
	for _, e := range entries {
		if strings.Trim(e.Name(), "0123456789") != "" {
			continue
		}
		comm, err := h.readText("proc/" + e.Name() + "/comm")
		if err != nil {
			continue // the process has exited
		}
		processes++
		if comm == "irqbalance" {
			return newFinding(Info, "irqbalance runs as process "+e.Name(),
				"it moves the interrupts of NICs away from the cores near them; polling programs are not affected",
				"systemctl stop irqbalance")
		}
	}
	if processes == 0 {
		return infoFinding("whether irqbalance runs is unknown: no processes are visible")
	}
	return okFinding("irqbalance is not among the %d visible processes", processes)
}
