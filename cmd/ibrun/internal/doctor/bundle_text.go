package doctor

import (
	"fmt"
	"io/fs"
	"net"
	"path"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/ibrun/ibrun/internal/tunables"
)

// buildText describes the build of this program. Other settings of the build may contain anything, such as flags of the linker.
func buildText() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "no information about the build\n"
	}
	var b strings.Builder
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS", "GOARCH", "GOAMD64", "GOARM64", "CGO_ENABLED", "-tags", "-race", "-buildmode", "-trimpath", "vcs.revision",
			"vcs.time", "vcs.modified":
			fmt.Fprintf(&b, "build %s=%s\n", s.Key, s.Value)
		}
	}
	for _, d := range info.Deps {
		fmt.Fprintf(&b, "module %s %s\n", d.Path, d.Version)
	}
	return b.String()
}

// systemText describes the software of the machine and the limits of this process.
func (h *Host) systemText() string {
	var b strings.Builder
	section := func(title, text string, err error) {
		if err != nil {
			text = "unknown: " + err.Error()
		}
		fmt.Fprintf(&b, "# %s\n%s\n\n", title, strings.TrimSpace(text))
	}
	for _, f := range []struct{ title, file string }{
		{"kernel", "proc/version"}, {"limits of this process", "proc/self/limits"}, {"cgroup", "proc/self/cgroup"},
		{"load", "proc/loadavg"}, {"sharing of RDMA devices between network namespaces", "sys/module/ib_core/parameters/netns_mode"},
	} {
		text, err := h.readText(f.file)
		section(f.title, text, err)
	}
	release, err := h.readText("etc/os-release")
	section("distribution", keepLines(release, "=", "NAME", "ID", "ID_LIKE", "VERSION", "VERSION_ID", "PRETTY_NAME"), err)
	section("rdma-core", h.libraryText(), nil)
	section("container", orNone(h.container()), nil)
	section("limits of the cgroup", h.cgroupText(), nil)
	return b.String()
}

// libraryText describes libibverbs, whose file name has the version of rdma-core, and the providers.
func (h *Host) libraryText() string {
	name := h.findLibrary("libibverbs.so.1")
	if name == "" {
		return "libibverbs.so.1 is not in the library directories"
	}
	var b strings.Builder
	target, err := fs.ReadLink(h.Root, name)
	if err != nil {
		target = path.Base(name)
	}
	fmt.Fprintf(&b, "/%s is %s", name, target)
	if version, found := strings.CutPrefix(path.Base(target), "libibverbs.so.1."); found {
		if _, release, found := strings.Cut(version, "."); found { // libibverbs.so.1.14.44.0
			fmt.Fprintf(&b, ", of rdma-core %s", release)
		}
	}
	providers, err := fs.Glob(h.Root, path.Join(path.Dir(name), "libibverbs", "lib*-rdmav*.so"))
	if err == nil {
		for _, p := range providers {
			fmt.Fprintf(&b, "\n/%s", p)
		}
	}
	return b.String()
}

// cgroupText returns the limits of the cgroup of this process and of those above it.
func (h *Host) cgroupText() string {
	text, err := h.readText("proc/self/cgroup")
	if err != nil {
		return "unknown: " + err.Error()
	}
	var lines []string
	for line := range strings.Lines(text) {
		words := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(words) != 3 || words[0] != "0" {
			continue // of version 1
		}
		for dir := path.Clean("/" + words[2]); ; dir = path.Dir(dir) {
			for _, file := range []string{"cpu.max", "cpuset.cpus.effective", "cpuset.mems.effective", "memory.max", "pids.max",
				"rdma.max"} {
				if value, err := h.readText(path.Join("sys/fs/cgroup", dir, file)); err == nil {
					lines = append(lines, fmt.Sprintf("%s %s: %s", dir, file, strings.ReplaceAll(value, "\n", "; ")))
				}
			}
			if dir == "/" {
				break
			}
		}
	}
	return orNone(strings.Join(lines, "\n"))
}

// networkText describes the network interfaces.
func (h *Host) networkText() string {
	var b strings.Builder
	interfaces, err := net.Interfaces()
	if err != nil {
		fmt.Fprintf(&b, "the interfaces are unknown: %v\n", err)
	}
	for _, i := range interfaces {
		fmt.Fprintf(&b, "%d: %s, MTU %d, %v, %v\n", i.Index, i.Name, i.MTU, i.Flags, i.HardwareAddr)
		for _, n := range interfaceNetworks(i.Name) {
			fmt.Fprintf(&b, "    %v\n", n)
		}
		if f, found, err := h.flowControlOf(i.Name); err != nil {
			fmt.Fprintf(&b, "    %v\n", err)
		} else if found {
			fmt.Fprintf(&b, "    priority flow control: %v; priorities of code points: %v\n", f, f.dscp)
		}
	}
	for _, name := range sortedKeys(h.MTUs) {
		fmt.Fprintf(&b, "RDMA port %s: active MTU %d, maximum %d, network %v\n", name, h.MTUs[name].Active, h.MTUs[name].Max,
			h.Networks[name])
	}
	return b.String()
}

// modulesText lists the kernel modules: name, size, number of users, version.
func (h *Host) modulesText() string {
	text, err := h.readText("proc/modules")
	if err != nil {
		return "unknown: " + err.Error() + "\n"
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 3 {
			continue
		}
		version, err := h.readText("sys/module/" + path.Base(words[0]) + "/version")
		if err != nil {
			version = "-" // most modules have none
		}
		fmt.Fprintln(&b, words[0], words[1], words[2], version)
	}
	return b.String()
}

// shownVariables returns the environment variables whose values are in a bundle. They have no secrets, no paths, and nothing
// about the user.
func shownVariables() []string {
	names := strings.Fields(`
		IBRUN_N IBRUN_NP IBRUN_NODE IBRUN_OFFSET IBRUN_BIND_TO IBRUN_CPU_BIND IBRUN_BYNODE IBRUN_TASKS_PER_NODE IBRUN_CHECK
		IBRUN_VERBOSE IBRUN_TIMEOUT IBRUN_FAILURE_GRACE IBRUN_VERBS_PROVIDER
		SLURM_JOB_ID SLURM_JOB_NUM_NODES SLURM_NNODES SLURM_NTASKS SLURM_NPROCS SLURM_NODEID SLURM_PROCID SLURM_LOCALID SLURM_STEP_ID
		SLURM_JOB_NODELIST SLURM_NODELIST SLURM_STEP_NODELIST SLURMD_NODENAME SLURM_TASKS_PER_NODE SLURM_STEP_TASKS_PER_NODE
		SLURM_NTASKS_PER_NODE SLURM_CPUS_PER_TASK SLURM_CPUS_ON_NODE SLURM_JOB_CPUS_PER_NODE SLURM_CPU_BIND SLURM_CPU_BIND_TYPE
		SLURM_CPU_BIND_LIST SLURM_MEM_PER_NODE SLURM_MEM_PER_CPU SLURM_DISTRIBUTION SLURM_MPI_TYPE SLURM_HET_SIZE SLURM_GPUS_ON_NODE
		PBS_JOBID PBS_NUM_NODES PBS_NUM_PPN PBS_NP PBS_NODENUM PBS_TASKNUM LSB_JOBID LSB_DJOB_NUMPROC LSB_MCPU_HOSTS
		PMI_RANK PMI_SIZE PMI_FD PMIX_RANK PMIX_VERSION MPI_LOCALNRANKS MPI_LOCALRANKID OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE
		OMPI_COMM_WORLD_LOCAL_RANK OMPI_COMM_WORLD_LOCAL_SIZE K_MPI_JOB_ROLE JOB_COMPLETION_INDEX KUBERNETES_SERVICE_HOST
		RDMAV_FORK_SAFE IBV_FORK_SAFE RDMAV_HUGEPAGES_SAFE MLX5_SINGLE_THREADED MLX5_SHUT_UP_BF MLX5_RELAXED_PACKET_ORDERING_ON
		MLX_QP_ALLOC_TYPE MLX_CQ_ALLOC_TYPE UCX_TLS UCX_NET_DEVICES UCX_IB_GID_INDEX UCX_IB_PKEY UCX_IB_SL UCX_IB_TRAFFIC_CLASS
		UCX_IB_ADDR_TYPE UCX_RC_PATH_MTU NCCL_IB_HCA NCCL_IB_GID_INDEX NCCL_IB_TC NCCL_IB_SL NCCL_IB_PKEY NCCL_IB_TIMEOUT
		NCCL_IB_RETRY_CNT NCCL_IB_DISABLE NCCL_SOCKET_IFNAME CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES
		GOMAXPROCS GOGC GOMEMLIMIT GODEBUG GOTRACEBACK OMP_NUM_THREADS OMP_PROC_BIND OMP_PLACES`)
	for _, a := range tunables.Attributes() {
		names = append(names, a.Variable)
	}
	for _, t := range tunables.All() {
		names = append(names, t.Variable)
	}
	return append(names, tunables.Heartbeat, tunables.Poll, tunables.Transports, tunables.TCPInterfaces, tunables.RDMADevices,
		tunables.ShmStores, tunables.Encrypt, tunables.Checksum, tunables.Protocol)
}

// notShown replaces a value that a variable of the list should not have.
const notShown = "(set; its value is not shown)"

// environmentText returns the variables that a bundle shows, and the names of ibrun's other variables: a misspelled one is a
// frequent problem.
func environmentText(env []string) string {
	shown := shownVariables()
	lines := []string{}
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		switch {
		case slices.Contains(shown, name) && isPlain(value):
			lines = append(lines, name+"="+value)
		case slices.Contains(shown, name), strings.HasPrefix(name, "IBRUN_") && isPlain(name):
			lines = append(lines, name+" "+notShown)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// isPlain reports whether a value is what settings are: numbers, words, and lists of them, but no paths, assignments,
// addresses of services, or long words that could be keys. The longest words are UUIDs of GPUs and names of hosts, which have
// hyphens or dots.
func isPlain(value string) bool {
	const longest, longestWord, longestPart = 1024, 40, 24
	if len(value) > longest {
		return false
	}
	word, part := 0, 0
	for _, c := range value {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
			word++
			part++
		case c == '_', c == '-', c == '.':
			word++
			part = 0
		case strings.ContainsRune(" ,:;^*+()[]/", c):
			word, part = 0, 0
		default:
			return false
		}
		if word > longestWord || part > longestPart {
			return false
		}
	}
	return !strings.HasPrefix(value, "/") && !strings.Contains(value, "//")
}
