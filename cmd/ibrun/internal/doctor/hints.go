package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/ibrun/ibrun/hw"
)

// hostNUMA compares where the RDMA devices are with the cores that this process may use.
func hostNUMA(h *Host) []Finding {
	return h.each(func(d *hw.RDMADevice) []Finding {
		path := h.Top.PathFrom(h.Top.Allowed, d.Location())
		evidence := fmt.Sprintf("%s is at NUMA node %d, the allowed PUs are %s: %s", d.Name, d.NUMA,
			hw.FormatList(h.Top.Allowed), path)
		switch path {
		case hw.PathUnknown:
			return hint("where %s is attached, the machine does not tell", d.Name)
		case hw.PathSys:
			return finding(Warning, evidence, "all traffic crosses from one package to the other: more latency, less bandwidth",
				"taskset -c "+hw.FormatList(d.LocalPUs)+" ibrun ...   # or ask the scheduler for these cores")
		case hw.PathNode:
			return finding(Info, evidence, "all traffic crosses from one NUMA node to another",
				"taskset -c "+hw.FormatList(d.LocalPUs)+" ibrun ...")
		}
		return ok("%s", evidence)
	})
}

// hostIOMMU looks whether the addresses of devices are translated.
func hostIOMMU(h *Host) []Finding {
	names, err := fs.Glob(h.Root, "sys/kernel/iommu_groups/*/type")
	if err != nil {
		return unknown("the IOMMU", err)
	}
	var through, translated int
	for _, name := range names {
		text, err := h.text(name)
		switch {
		case err != nil:
			return unknown("the mode of the IOMMU", err)
		case text == "identity":
			through++
		default: // DMA, DMA-FQ
			translated++
		}
	}
	switch {
	case len(names) == 0 && !h.Live: // which is kept without empty directories
		return hint("the captured tree has no IOMMU: none is switched on, or it was not written down")
	case len(names) == 0:
		return ok("no IOMMU is switched on")
	case translated == 0:
		return ok("the IOMMU passes the addresses of all %d groups of devices through", through)
	}
	return finding(Info, fmt.Sprintf("the IOMMU translates the addresses of %d groups of devices, and passes those of %d "+
		"through", translated, through),
		"each transfer may cost a look-up, and devices reach each other only by a detour", "kernel command line: iommu=pt")
}

// hostACS says what to look at where GPUs and NICs are below one switch.
func hostACS(h *Host) []Finding {
	for i := range h.Top.GPUs {
		for j := range h.Top.RDMA {
			g, d := &h.Top.GPUs[i], &h.Top.RDMA[j]
			if path := h.Top.PathBetween(g.Location(), d.Location()); path == hw.PathPIX || path == hw.PathPXB {
				return finding(Info, fmt.Sprintf("%s and %s are below one PCI switch (%s); whether it sends their traffic up "+
					"to the CPU only root can see",
					g.Name, d.Name, path), "with access control services on, transfers between GPU and NIC take a detour",
					"lspci -vvv | grep ACSCtl   # should say SrcValid-; setpci switches it off")
			}
		}
	}
	return ok("no GPU shares a PCI switch with an RDMA device")
}

// hostHugepages looks for memory in large pages.
func hostHugepages(h *Host) []Finding {
	total, err := h.field("proc/meminfo", "HugePages_Total")
	if err != nil {
		return unknown("the number of huge pages", err)
	}
	if total != "0" {
		return ok("%s huge pages are set aside", total)
	}
	return finding(Info, "no huge pages are set aside",
		"devices find large registered buffers quicker in huge pages; ibrun does not need them",
		"sysctl vm.nr_hugepages=1024")
}

// hostTHP looks whether the kernel makes huge pages by itself.
func hostTHP(h *Host) []Finding {
	text, err := h.text("sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil {
		return unknown("the use of transparent huge pages", err)
	}
	_, rest, _ := strings.Cut(text, "[")
	mode, _, found := strings.Cut(rest, "]")
	switch {
	case !found:
		return hint("the use of transparent huge pages is unknown: %q", text)
	case mode == "never":
		return finding(Info, "transparent huge pages are off", "large arrays then cost more in address translation",
			"echo madvise > /sys/kernel/mm/transparent_hugepage/enabled")
	}
	return ok("transparent huge pages: %s", mode)
}

// hostGovernor looks whether cores sleep when they should run.
func hostGovernor(h *Host) []Finding {
	count := map[string]int{}
	for _, pu := range h.Top.Allowed {
		text, err := h.text(fmt.Sprintf("sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor", pu))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return unknown("the frequency governor of PU "+strconv.Itoa(pu), err)
		}
		if err == nil {
			count[text]++
		}
	}
	switch {
	case len(count) == 0 && !h.Live:
		return hint("the captured tree has no frequency governor: the kernel has none, or it was not written down")
	case len(count) == 0:
		return ok("the kernel does not control the frequency of cores")
	case len(count) == 1 && count["performance"] > 0:
		return ok("all cores run at full frequency")
	}
	var words []string
	for _, name := range sortedKeys(count) {
		words = append(words, fmt.Sprintf("%s on %d PUs", name, count[name]))
	}
	return finding(Info, "the frequency governor is "+strings.Join(words, ", "),
		"cores that have slept answer later, and measurements vary",
		"cpupower frequency-set -g performance")
}

// hostIRQBalance looks for the service that moves interrupts.
func hostIRQBalance(h *Host) []Finding {
	entries, err := fs.ReadDir(h.Root, "proc")
	if err != nil {
		return unknown("whether irqbalance runs", err)
	}
	processes := 0
	for _, e := range entries {
		if strings.Trim(e.Name(), "0123456789") != "" {
			continue
		}
		comm, err := h.text("proc/" + e.Name() + "/comm")
		if err != nil {
			continue // it has ended
		}
		processes++
		if comm == "irqbalance" {
			return finding(Info, "irqbalance runs as process "+e.Name(),
				"it moves the interrupts of NICs away from the cores near them; polling programs do not care",
				"systemctl stop irqbalance")
		}
	}
	if processes == 0 {
		return hint("whether irqbalance runs is unknown: no processes can be seen")
	}
	return ok("irqbalance is not among the %d processes that can be seen", processes)
}
