package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/ibrun/ibrun/hw"
)

// healthy returns a host with one good RoCE device and one good peer. Each case below breaks something.
func healthy() *Host {
	gid := hw.GID{Index: 3, Addr: netip.MustParseAddr("::ffff:10.0.0.1"), Type: hw.GIDRoCEv2, Netdev: "eth2"}
	pus := []int{0, 1}
	return &Host{
		Root: files(map[string]string{
			"proc/self/limits": "Limit                     Soft Limit           Hard Limit           Units     \n" +
				"Max open files            1024                 524288               files     \n" +
				"Max locked memory         unlimited            unlimited            bytes     \n",
			"proc/self/status":          "Name:\tibrun\nCapEff:\t0000000000000000\n",
			"proc/version":              "Linux version 6.1.0-18-amd64 (x@y) (gcc) #1 SMP\n",
			"proc/mounts":               "tmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0\n",
			"proc/meminfo":              "MemTotal: 1 kB\nHugePages_Total:    1024\n",
			"proc/17/comm":              "sshd\n",
			"etc/hosts":                 "127.0.0.1 localhost # loopback\n10.0.0.1 node1\n",
			"usr/lib64/libibverbs.so.1": "",
			"usr/lib64/libibverbs/libmlx5-rdmav34.so":                        "",
			"etc/libibverbs.d/mlx5.driver":                                   "driver mlx5\n",
			"sys/kernel/iommu_groups/0/type":                                 "identity\n",
			"sys/kernel/mm/transparent_hugepage/enabled":                     "always [madvise] never\n",
			"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor":           "performance\n",
			"sys/module/ib_core/parameters/netns_mode":                       "Y\n",
			"sys/class/net/eth2/qos/pfc":                                     "0 0 0 1 0 0 0 0\n",
			"sys/class/net/eth2/ecn/roce_np/enable/3":                        "1\n",
			"sys/class/net/eth2/ecn/roce_rp/enable/3":                        "1\n",
			"sys/class/infiniband/mlx5_0/ports/1/hw_counters/packet_seq_err": "0\n",
		}),
		Top: &hw.Topology{
			PUs: []hw.PU{{ID: 0}, {ID: 1, Core: 1}, {ID: 2, Core: 2, Node: 1, Package: 1}, {ID: 3, Core: 3, Node: 2,
				Package: 0}},
			Nodes: []hw.Node{{ID: 0, PUs: pus, Near: pus}, {ID: 1, PUs: []int{2}, Near: []int{2}}, {ID: 2, PUs: []int{3},
				Near: []int{3}}},
			Allowed: []int{0, 1, 2, 3},
			PCI:     []hw.PCIDevice{{Address: "0000:01:00.0", Link: hw.Link{Speed: 16, Width: 16, MaxSpeed: 16, MaxWidth: 16}}},
			Netdevs: []hw.Netdev{{Name: "eth2", MTU: 9000}, {Name: "eth3", MTU: 1500}},
			RDMA: []hw.RDMADevice{{Name: "mlx5_0", Type: hw.NodeCA, Driver: "mlx5_core", Provider: "mlx5", PCI: "0000:01:00.0",
				LocalPUs: pus,
				Chars:    []hw.CharDevice{{Kind: "uverbs", Name: "uverbs0"}, {Kind: "rdma_cm", Name: "rdma_cm"}},
				Ports: []hw.RDMAPort{{Number: 1, State: hw.PortActive, PhysState: "LinkUp", Rate: 200e9,
					LinkLayer: hw.LinkEthernet, Netdev: "eth2",
					GIDs: []hw.GID{gid}}}}},
		},
		Getenv: func(name string) string {
			return map[string]string{"IBRUN_RDMA_TRAFFIC_CLASS": "106"}[name]
		},
		Name:        "node1",
		Version:     "ibrun v1",
		Live:        true,
		FlowControl: func(string) (flowControl, bool, error) { return flowControl{lossless: 1 << 3}, true, nil },
		MTUs:        map[string]PortMTU{"mlx5_0/1": {4096, 4096}},
		Networks:    map[string]netip.Prefix{"mlx5_0/1": netip.MustParsePrefix("10.0.0.0/24")},
		Refused:     map[string]error{"mlx5_0/1": nil},
		Pings:       []Ping{{From: "mlx5_0/1", To: "mlx5_0/1", Time: 2 * time.Microsecond}},
		Peers: []Peer{{Name: "node2", ConnectTime: time.Millisecond, Version: "ibrun v1", ClockError: time.Millisecond,
			ConnectsBack: true, Ports: []portSummary{{Port: "mlx5_0/1", Layer: hw.LinkEthernet, Families: []hw.Family{hw.FamilyIPv4},
				MTU: 4096}}}},
	}
}

func files(texts map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, text := range texts {
		fsys[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o444}
	}
	return fsys
}

func (h *Host) put(name, text string) {
	h.Root.(fstest.MapFS)[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o444}
}
func (h *Host) remove(name string)  { delete(h.Root.(fstest.MapFS), name) }
func (h *Host) dev() *hw.RDMADevice { return &h.Top.RDMA[0] }
func (h *Host) port() *hw.RDMAPort  { return &h.Top.RDMA[0].Ports[0] }
func (h *Host) env(name, value string) {
	before := h.Getenv
	h.Getenv = func(n string) string {
		if n == name {
			return value
		}
		return before(n)
	}
}

func (h *Host) limits(locked, hard, open, openHard string) {
	h.put("proc/self/limits", fmt.Sprintf("Max open files  %s %s files\nMax locked memory  %s %s bytes\n", open, openHard,
		locked, hard))
}

func infiniBand(h *Host) {
	h.port().LinkLayer, h.port().Netdev, h.port().LID, h.port().SMLID = hw.LinkInfiniBand, "", 3, 1
	h.port().GIDs = []hw.GID{{Addr: netip.MustParseAddr("fe80::1"), Type: hw.GIDInfiniBand}}
}

func softRoCE(h *Host) { h.dev().Provider, h.dev().PCI = "rxe", "" }

// unlisted gives the device a driver that is in no table of ibrun.
func unlisted(h *Host) { h.dev().Driver, h.dev().Provider = "acme_core", "acme_core" }

// refused makes the device refuse what a job asks.
func refused(h *Host) { h.Refused["mlx5_0/1"] = errors.New("refused") }

// broken is one case: a defect of the host and the expected finding.
type broken struct {
	id   string
	with func(h *Host)
	want Severity
	says string // in the evidence
	fix  string // in the fix
}

func brokenHosts() []broken {
	return slices.Concat(brokenVerbs(), brokenUse(), brokenPorts(), brokenFlow(), brokenHost(), brokenPeers(), brokenFabric(),
		brokenSettings(), brokenPriorities())
}

func brokenVerbs() []broken {
	open := func(err error) func(*Host) {
		return func(h *Host) { h.dev().AccessError = &hw.AccessError{Reason: "the reason", Err: err} }
	}
	return []broken{
		{"memlock.limit", func(h *Host) { h.limits("8388608", "unlimited", "1", "1") }, Error, "8 MiB", "ulimit -l unlimited"},
		{"memlock.limit", func(h *Host) { h.limits("8388608", "8388608", "1", "1") }, Error, "8 MiB", "/etc/security/limits.d"},
		{"memlock.limit", func(h *Host) { h.limits("268435456", "268435456", "1", "1"); h.put(".dockerenv", "") }, Warning,
			"256 MiB", "--ulimit memlock"},
		{"memlock.limit", func(h *Host) {
			h.limits("8388608", "8388608", "1", "1")
			h.put("proc/1/cgroup",
				"0::/kubepods/x\n")
		}, Error, "8 MiB", "IPC_LOCK"},
		{"memlock.limit", func(h *Host) { h.limits("8388608", "8388608", "1", "1"); h.env("SLURM_JOB_ID", "1") }, Error,
			"8 MiB", "slurm.conf"},
		{"memlock.limit", func(h *Host) {
			h.limits("8388608", "8388608", "1", "1")
			h.put("proc/self/status",
				"CapEff:\t4000\n")
		}, OK, "CAP_IPC_LOCK", ""},
		{"memlock.limit", func(h *Host) { h.limits("4294967296", "4294967296", "1", "1") }, OK, "4 GiB", ""},
		{"memlock.limit", func(h *Host) { h.limits("8388608", "8388608", "1", "1"); h.Top.RDMA = nil }, Info, "8 MiB",
			""},
		{"memlock.limit", func(h *Host) { h.remove("proc/self/limits") }, Info, "unknown", ""},
		{"memlock.limit", func(h *Host) { h.put("proc/self/limits", "Max locked memory lots more bytes\n") }, Info, "unknown",
			""},
		{"memlock.limit", func(h *Host) { h.put("proc/self/limits", "") }, Info, "no line", ""},
		{"verbs.device", func(h *Host) { h.Top.RDMA = nil }, Info, "no device", ""},
		{"verbs.device", func(h *Host) { h.dev().OtherNetns = true }, Info, "another network namespace", "rdma dev set mlx5_0 netns"},
		{"verbs.device", func(h *Host) { h.dev().Problems = []string{"read fw_ver: EIO"} }, Warning, "read fw_ver: EIO", "/sys"},
		{"verbs.open", open(syscall.EACCES), Error,
			"/dev/infiniband/uverbs0 (mlx5_0) cannot be opened: the reason: permission denied", "chmod 666"},
		{"verbs.open", func(h *Host) { h.dev().Type = hw.NodeRNIC }, Info, "is an iWARP device", "RoCE v2"},
		{"verbs.open", open(errors.ErrUnsupported), Error, "the reason", "--network host"},
		{"verbs.open", open(fs.ErrNotExist), Error, "cannot be opened", "modprobe ib_uverbs"},
		{"verbs.open", func(h *Host) { open(syscall.EPERM)(h); h.put(".dockerenv", "") }, Error, "not permitted",
			"--device=/dev/infiniband"},
		{"verbs.open", func(h *Host) { open(syscall.EPERM)(h); h.put("run/secrets/kubernetes.io/x", "") }, Error,
			"not permitted", "device plugin"},
		{"verbs.open", func(h *Host) { h.dev().Chars = nil }, Error, "no uverbs file", "modprobe ib_uverbs"},
		{"verbs.open", func(h *Host) { h.Live = false }, Info, "a captured tree", ""},
		{"verbs.open", func(h *Host) { h.dev().OtherNetns = true }, Info, "no RDMA device", ""},
		{"verbs.cm", func(h *Host) { h.dev().Chars = h.dev().Chars[:1] }, Info, "rdma_cm", "modprobe rdma_ucm"},
		{"verbs.library", func(h *Host) { h.remove("usr/lib64/libibverbs.so.1") }, Error, "libibverbs.so.1", "apt-get install"},
		{"verbs.library", func(h *Host) { h.remove("usr/lib64/libibverbs/libmlx5-rdmav34.so") }, Error,
			"libmlx5-rdmav*.so is missing", "apt-get install"},
		{"verbs.library", func(h *Host) { h.remove("usr/lib64/libibverbs.so.1"); h.Live = false }, Info, "a captured tree", ""},
		{"verbs.library", func(h *Host) { h.dev().Provider = "" }, Info, "the library for driver", ""},
		{"verbs.library", func(h *Host) {
			for _, name := range []string{"libibverbs.so.1", "libibverbs/libmlx5-rdmav34.so"} {
				h.remove("usr/lib64/" + name)
				h.put("opt/ofed/"+name, "")
			}
			h.env("LD_LIBRARY_PATH", "lib:/opt/ofed/")
		}, OK, "/opt/ofed/libibverbs/libmlx5-rdmav34.so", ""},
		{"verbs.library", softRoCE, OK, "without a library", ""},
		{"verbs.drivers", func(h *Host) { h.put("etc/libibverbs.d/vmw_pvrdma.driver", "driver vmw_pvrdma\n") }, Info,
			"libvmw_pvrdma", "ibverbs-providers"},
		{"verbs.drivers", func(h *Host) { h.remove("etc/libibverbs.d/mlx5.driver") }, Info, "no provider", ""},
	}
}

func brokenUse() []broken {
	named := func(name string) func(*Host) {
		return both(env("IBRUN_RDMA_DEVICES", strings.Replace(name, "/", ":", 1)), func(h *Host) {
			h.Refused = map[string]error{name: errors.New("device " + name + " cannot be used")}
		})
	}
	down := func(h *Host) { h.port().State = "DOWN" }
	return []broken{
		{"verbs.use", both(named("mlx5_0"), down), Warning, "device mlx5_0 cannot be used",
			"ip link set eth2 up   # or unset IBRUN_RDMA_DEVICES"},
		{"verbs.use", both(named("mlx5_0/1"), down, func(h *Host) { h.port().Netdev = "" }), Warning, "device mlx5_0/1 cannot",
			"check the cable, then: ibstat mlx5_0   # or unset IBRUN_RDMA_DEVICES"},
		{"verbs.use", both(named("mlx5_0/9"), down), Warning, "device mlx5_0/9 cannot", "or name ports that ibrun topo shows"},
		{"verbs.use", both(named("mlx5_0"), func(h *Host) { h.dev().Type = hw.NodeRNIC }), Warning, "device mlx5_0 cannot",
			"or name devices of this network namespace that ibrun supports"},
		{"verbs.use", both(named("mlx5_0"), func(h *Host) { h.dev().AccessError = &hw.AccessError{Err: syscall.EACCES} }), Info,
			"no active RDMA port that this process can open", ""},
		{"verbs.use", func(h *Host) { h.Refused["mlx5_0/1"] = errors.New("max_qp_rd_atom: 0") }, Error, "mlx5_0/1: max_qp_rd_atom: 0",
			"ibrun explain"},
		{"verbs.use", unlisted, OK, "jobs can use mlx5_0/1", ""},
		{"verbs.use", both(unlisted, refused), Error, "mlx5_0/1: refused", "ibrun explain"},
		{"verbs.use", func(h *Host) { clear(h.Refused) }, Info, "mlx5_0/1 is not used by jobs, by the settings", ""},
		{"verbs.use", func(h *Host) { h.Top.RDMA = nil; clear(h.Refused) }, Info, "no active RDMA port", ""},
		{"verbs.use", both(env("IBRUN_RDMA_DEVICES", "mlx9_9"), func(h *Host) {
			h.Top.RDMA, h.Refused = nil, map[string]error{"mlx9_9": errors.New("device mlx9_9 cannot be used")}
		}), Warning, "device mlx9_9 cannot be used", "unset IBRUN_RDMA_DEVICES"},
		{"verbs.use", both(env("IBRUN_RDMA_DEVICES", "mlx5_0,mlx9_9"), func(h *Host) {
			h.Refused["mlx9_9"] = errors.New("device mlx9_9 cannot be used")
		}), Warning, "device mlx9_9 cannot be used", "unset IBRUN_RDMA_DEVICES"},
		{"verbs.use", func(h *Host) { h.Live = false }, Info, "a captured tree", ""},
	}
}

func brokenPorts() []broken {
	link := func(speed float64, width int) func(*Host) {
		return func(h *Host) { h.Top.PCI[0].Link.Speed, h.Top.PCI[0].Link.Width = speed, width }
	}
	second := func(h *Host) {
		d := h.Top.RDMA[0]
		d.Name, d.Ports = "mlx5_1", slices.Clone(d.Ports)
		d.Ports[0].Netdev = "eth3"
		h.Top.RDMA = append(h.Top.RDMA, d)
	}
	mtu := func(n int, rate uint64) func(*Host) {
		return func(h *Host) { h.Top.Netdevs[0].MTU = n; h.port().Rate = rate }
	}
	return []broken{
		{"port.state", func(h *Host) { h.port().State = "DOWN" }, Error, "mlx5_0/1 is DOWN", "ip link set eth2 up"},
		{"port.state", func(h *Host) { h.port().State, h.port().PhysState = "DOWN", "Disabled" }, Warning, "Disabled",
			"ip link set eth2 up"},
		{"port.state", func(h *Host) { infiniBand(h); h.port().State = "INIT" }, Error, "INIT", "opensm"},
		{"port.state", func(h *Host) { second(h); h.Top.RDMA[1].Ports[0].State = "DOWN" }, Warning, "mlx5_1/1 is DOWN",
			"eth3 up"},
		{"port.subnet", infiniBand, OK, "LID 3", ""},
		{"port.subnet", func(h *Host) { infiniBand(h); h.port().LID = 0 }, Error, "LID 0", "opensm"},
		{"port.pcie", link(16, 8), Warning, "16 GT/s x8, but supports 16 GT/s x16", "slot"},
		{"port.pcie", link(8, 16), Warning, "8 GT/s x16, but supports", "slot"},
		{"port.pcie", func(h *Host) { h.port().Rate = 400e9 }, Warning, "its ports together have 400 Gb/s", "slot"},
		{"port.pcie", link(0, 0), Info, "unknown", ""},
		{"port.pcie", softRoCE, OK, "not a PCI device", ""},
		{"port.state", func(h *Host) { h.port().State = "" }, Error, "mlx5_0/1 is in an unknown state, LinkUp", "ip link set eth2 up"},
		{"gid.choice", both(refused, func(h *Host) { h.port().GIDs = nil }), Error, "no usable GID", "ip addr add"},
		{"gid.choice", func(h *Host) { h.port().GIDs = nil }, Info, "; jobs can use the port", ""},
		{"gid.choice", both(refused, func(h *Host) { h.port().GIDs[0].Type = hw.GIDRoCEv1 }), Error, "RoCE v1", "ip addr add"},
		{"gid.choice", both(refused, func(h *Host) { h.port().GIDs[0].OtherNetns = true }), Error,
			"another network namespace", "--network host"},
		{"gid.choice", func(h *Host) { h.dev().AccessError = &hw.AccessError{Reason: "closed", Err: syscall.EACCES} }, Info,
			"cannot be opened", ""},
		{"gid.choice", func(h *Host) { h.port().GIDs[0].Addr = netip.MustParseAddr("fe80::1") }, Warning, "fe80::1", "dev eth2"},
		{"gid.choice", func(h *Host) { h.port().State = "DOWN" }, Info, "not active", ""},
		{"gid.choice", infiniBand, OK, "fe80::1", ""},
		{"gid.index", func(h *Host) { h.env("NCCL_IB_GID_INDEX", "0") }, Warning, "reached at index 3",
			"unset NCCL_IB_GID_INDEX"},
		{"gid.index", func(h *Host) { h.env("UCX_IB_GID_INDEX", "3") }, Info, "currently right", "unset UCX_IB_GID_INDEX"},
		{"gid.index", func(h *Host) { h.env("UCX_IB_GID_INDEX", "auto") }, OK, "", ""},
		{"gid.index", func(h *Host) { h.Live = false }, Info, "a captured tree", ""},
		{"mtu.size", mtu(1500, 100e9), Warning, "packets of 1024 bytes: eth2 has an MTU of 1500", "ip link set eth2 mtu"},
		{"mtu.size", mtu(1500, 1e9), Info, "1024 bytes", "ip link set eth2 mtu"},
		{"mtu.size", mtu(300, 1e9), Error, "packets of 0 bytes", "ip link set eth2 mtu"},
		{"mtu.size", mtu(4200, 1e11), OK, "4096 bytes", ""},
		{"mtu.size", func(h *Host) { h.MTUs["mlx5_0/1"] = PortMTU{512, 4096} }, Info,
			"packets of 512 bytes: so small is its active MTU", ""},
		{"mtu.size", func(h *Host) { h.MTUs["mlx5_0/1"] = PortMTU{0, 4096} }, Info, "its active MTU is", ""},
		{"mtu.size", func(h *Host) { h.port().Netdev = "gone" }, Info, "unknown", ""},
		{"mtu.size", infiniBand, OK, "InfiniBand", ""},
		{"mtu.equal", second, Warning, "1500 on eth3, 9000 on eth2", "mtu 9000"},
		{"mtu.equal", infiniBand, Info, "no active RoCE port", ""},
	}
}

func brokenFlow() []broken {
	return []broken{
		{"flow.pfc", func(h *Host) { h.FlowControl = nil; h.put("sys/class/net/eth2/qos/pfc", "0 0 0 0 0 0 0 0\n") }, Warning,
			"no priority", "dcb pfc set dev eth2"},
		{"flow.pfc", func(h *Host) { h.FlowControl = nil }, OK, "priority 3", ""},
		{"flow.pfc", func(h *Host) { h.FlowControl = nil; h.remove("sys/class/net/eth2/qos/pfc") }, Info,
			"eth2 reports no priority flow control", ""},
		{"flow.pfc", softRoCE, Info, "no active RoCE hardware", ""},
		{"flow.ecn", func(h *Host) { h.put("sys/class/net/eth2/ecn/roce_rp/enable/3", "0\n") }, Warning, "roce_rp/3",
			"ecn/roce_rp/enable/3"},
		{"flow.ecn", func(h *Host) {
			h.remove("sys/class/net/eth2/ecn/roce_np/enable/3")
			h.remove("sys/class/net/eth2/ecn/roce_rp/enable/3")
		}, Info, "unknown", "cnp"},
		{"flow.loss", func(h *Host) { h.put("sys/class/infiniband/mlx5_0/ports/1/hw_counters/packet_seq_err", "12\n") }, Info,
			"packet_seq_err=12", "grep"},
		{"flow.loss", func(h *Host) { h.remove("sys/class/infiniband/mlx5_0/ports/1/hw_counters/packet_seq_err") }, Info,
			"unknown", ""},
		{"reach.ports", func(h *Host) { h.Pings[0].Err = errors.New("lost") }, Error,
			"1 of 1 pings failed: mlx5_0/1 to mlx5_0/1: lost", "show_gids"},
		{"reach.ports", func(h *Host) { h.Pings = append(h.Pings, Ping{"mlx5_0/1", "b/1", time.Second, nil}) }, Info,
			"1s from mlx5_0/1 to b/1", "bench"},
		{"reach.ports", func(h *Host) { h.Pings = nil }, Info, "nothing was sent", ""},
		{"reach.ports", func(h *Host) { h.Pings, h.Live = nil, false }, Info, "a captured tree", ""},
		{"reach.ports", func(h *Host) { h.Pings, h.port().State = nil, "DOWN" }, Info, "no active RDMA port", ""},
	}
}

func brokenHost() []broken {
	return []broken{
		{"host.numa", func(h *Host) { h.Top.Allowed = []int{2} }, Warning, "SYS", "taskset -c 0-1"},
		{"host.numa", func(h *Host) { h.Top.Allowed = []int{3} }, Info, "NODE", "taskset -c 0-1"},
		{"host.numa", func(h *Host) { h.dev().NUMA, h.dev().LocalPUs = -1, nil }, Info, "does not report", ""},
		{"host.iommu", func(h *Host) { h.put("sys/kernel/iommu_groups/1/type", "DMA-FQ\n") }, Info,
			"translates the addresses of 1 device groups", "iommu=pt"},
		{"host.iommu", func(h *Host) { h.remove("sys/kernel/iommu_groups/0/type") }, OK, "no IOMMU", ""},
		{"host.iommu", func(h *Host) { h.remove("sys/kernel/iommu_groups/0/type"); h.Live = false }, Info,
			"none is enabled, or", ""},
		{"host.acs", func(h *Host) {
			h.Top.PCI[0].Parent, h.Top.PCI[0].Root = "0000:00:01.0", "pci0000:00"
			h.Top.PCI = append(h.Top.PCI, hw.PCIDevice{Address: "0000:02:00.0", Parent: "0000:00:01.0", Root: "pci0000:00"})
			h.Top.GPUs = []hw.Device{{Name: "card0", PCI: "0000:02:00.0"}}
		}, Info, "card0 and mlx5_0 are below one PCI switch (PIX)", "ACSCtl"},
		{"host.hugepages", func(h *Host) { h.put("proc/meminfo", "HugePages_Total:       0\n") }, Info, "no huge pages",
			"vm.nr_hugepages"},
		{"host.hugepages", func(h *Host) { h.remove("proc/meminfo") }, Info, "unknown", ""},
		{"host.thp", func(h *Host) { h.put("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n") }, Info,
			"off", "madvise"},
		{"host.thp", func(h *Host) { h.put("sys/kernel/mm/transparent_hugepage/enabled", "") }, Info, "unknown", ""},
		{"host.governor", func(h *Host) { h.put("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n") }, Info,
			"performance on 1 PUs, powersave on 1 PUs", "cpupower"},
		{"host.governor", func(h *Host) { h.remove("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") }, OK,
			"does not control", ""},
		{"host.governor", func(h *Host) {
			h.remove("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
			h.Live = false
		}, Info, "has none, or", ""},
		{"host.irqbalance", func(h *Host) { h.put("proc/99/comm", "irqbalance\n") }, Info, "process 99",
			"systemctl stop irqbalance"},
		{"host.irqbalance", func(h *Host) { h.remove("proc/17/comm") }, Info, "unknown", ""},
		{"process.fork", func(h *Host) { h.put("proc/version", "Linux version 5.11.22-x (y)\n") }, Warning,
			"5.11.22-x is older", "RDMAV_FORK_SAFE=1"},
		{"process.fork", func(h *Host) { h.put("proc/version", "Linux version 4.18.0\n"); h.env("RDMAV_FORK_SAFE", "1") }, OK,
			"is set", ""},
		{"process.fork", func(h *Host) { h.put("proc/version", "Linux version 4.18.0\n"); h.Live = false }, Warning,
			"a captured tree does not contain the environment", "RDMAV_FORK_SAFE=1"},
		{"process.fork", func(h *Host) { h.put("proc/version", "\n") }, Info, "unknown", ""},
		{"process.files", func(h *Host) { h.limits("1", "1", "1024", "1024") }, Warning, "1024 files", "nofile"},
		{"process.files", func(h *Host) { h.remove("proc/self/limits") }, Info, "unknown", ""},
		{"process.shm", func(h *Host) { h.put("proc/mounts", "shm /dev/shm tmpfs rw,size=65536k 0 0\n") }, Warning, "64 MiB",
			"--shm-size"},
		{"process.shm", func(h *Host) { h.put("proc/mounts", "shm /dev/shm tmpfs rw,size=8388608k 0 0\n") }, OK, "8 GiB", ""},
		{"process.shm", func(h *Host) { h.put("proc/mounts", "shm /dev/shm tmpfs rw,size=50% 0 0\n") }, Info, "size=50%", ""},
		{"process.shm", func(h *Host) { h.put("proc/mounts", "proc /proc proc rw 0 0\n") }, Warning, "not mounted",
			"mount -t tmpfs"},
		{"process.kernel", func(h *Host) { h.put("proc/version", "Linux version 4.18.0-x (y)\n") }, Warning, "4.18.0-x", "5.4"},
		{"process.kernel", func(h *Host) { h.remove("proc/version") }, Info, "unknown", ""},
		{"process.netns", func(h *Host) { h.put("sys/module/ib_core/parameters/netns_mode", "N\n") }, Info,
			"one network namespace", "netns shared"},
		{"process.netns", func(h *Host) { h.Top.RDMA = nil }, Info, "no RDMA device", ""},
	}
}

func brokenPeers() []broken {
	refused := func(h *Host) {
		h.Peers[0].ConnectErr, h.Peers[0].LoginErr = errors.New("no route to host"), errors.New("exit status 255")
	}
	denied := func(h *Host) { h.Peers[0].LoginErr = errors.New("Permission denied (publickey)") }
	var alone []broken
	for _, id := range []string{"reach.hosts", "reach.fabric", "reach.clock", "mtu.hosts", "ssh.login", "ssh.version", "ssh.port"} {
		alone = append(alone, broken{id, func(h *Host) { h.Peers = nil }, Info, "no other host", ""})
	}
	return append(alone, []broken{
		{"reach.hosts", refused, Error, "node2 is not reachable: no route to host", "getent hosts node2"},
		{"reach.clock", func(h *Host) { h.Peers[0].ClockOffset = -3 * time.Second }, Warning, "-3s off", "chrony"},
		{"reach.hosts", func(h *Host) { h.Peers[0].ConnectTime = 0 }, OK, "node2 is reachable by ssh", ""},
		{"reach.clock", denied, Info, "unknown", ""},
		{"ssh.login", denied, Error, "ssh node2: Permission denied", "ssh-copy-id node2"},
		{"ssh.login", refused, Info, "node2 is not reachable: exit status 255", ""},
		{"ssh.version", func(h *Host) { h.Peers[0].Version = "" }, Error, "not found", "scp"},
		{"ssh.version", func(h *Host) { h.Peers[0].Version = "ibrun v2" }, Error, `"ibrun v2", this host "ibrun v1"`, "scp"},
		{"ssh.version", denied, Info, "unknown", ""},
		{"ssh.name", func(h *Host) { h.put("etc/hosts", "127.0.1.1\tnode1.x node1\n") }, Warning, "node1 is 127.0.1.1",
			"/etc/hosts"},
		{"ssh.name", func(h *Host) { h.put("etc/hosts", "127.0.1.1 node1\n"); h.Peers = nil }, Info, "node1 is 127.0.1.1",
			"/etc/hosts"},
		{"ssh.name", func(h *Host) { h.put("etc/hosts", "127.0.0.1 localhost\n") }, OK, "DNS", ""},
		{"ssh.name", func(h *Host) { h.remove("etc/hosts") }, Info, "unknown", ""},
		{"ssh.port", func(h *Host) { h.Peers[0].ConnectsBack = false }, Error, "cannot connect", "firewall-cmd"},
	}...)
}

// of returns the worst finding of a check.
func of(r Report, id string) Finding {
	order := []Severity{OK, Info, Warning, Error}
	var worst Finding
	for _, f := range r.Findings {
		if f.ID == id && (worst.ID == "" || slices.Index(order, f.Severity) > slices.Index(order, worst.Severity)) {
			worst = f
		}
	}
	return worst
}

func TestHealthy(t *testing.T) {
	r := RunChecks(healthy())
	for _, f := range r.Findings {
		if f.Severity != OK || f.Evidence == "" || f.Why != "" || f.Fix != "" {
			t.Errorf("a healthy host has the finding %+v", f)
		}
	}
	for _, c := range checks() {
		if of(r, c.id).ID == "" {
			t.Errorf("%s returned no finding", c.id)
		}
	}
	if r.ExitCode() != 0 {
		t.Errorf("exit code %d", r.ExitCode())
	}
}

func TestBrokenHosts(t *testing.T) {
	bad := map[string]bool{}
	for _, c := range brokenHosts() {
		h := healthy()
		c.with(h)
		got := of(RunChecks(h), c.id)
		if got.Severity != c.want || !strings.Contains(got.Evidence, c.says) || !strings.Contains(got.Fix,
			c.fix) || (c.fix == "") != (got.Fix == "") {
			t.Errorf("%s: got %+v\nwant %s, evidence with %q, fix with %q", c.id, got, c.want, c.says, c.fix)
		}
		if (got.Severity == Warning || got.Severity == Error) && (got.Why == "" || got.Fix == "") {
			t.Errorf("%s: no reason or remedy: %+v", c.id, got)
		}
		bad[c.id] = bad[c.id] || got.Severity != OK
	}
	for _, c := range checks() {
		if !bad[c.id] {
			t.Errorf("no broken host fails %s", c.id)
		}
	}
}
