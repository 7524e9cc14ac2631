package placement

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/inputfile"
)

// Level is a kind of object of a node, by the name that --map-by and --bind-to use.
type Level string

// The levels, smallest first. Share and None are not objects: they are a rank's share of the cores, and no binding.
const (
	Share    Level = "" // in --map-by: slot
	None     Level = "none"
	HWThread Level = "hwthread"
	Core     Level = "core"
	L1       Level = "l1cache"
	L2       Level = "l2cache"
	L3       Level = "l3cache"
	NUMA     Level = "numa"
	Package  Level = "package"
	Node     Level = "node"
	Device   Level = "device"
)

// Policy is the placement that the user requested. The zero Policy gives each rank of a node an equal share of its cores.
type Policy struct {
	// Map is the objects that ranks are assigned to round-robin. Node distributes ranks to the nodes of the job round-robin;
	// with all other levels the nodes are filled one after the other.
	Map Level
	// Device selects the devices of Map Device: "nic", "gpu" or the name of one device. Empty: nic.
	Device string
	// PerObject is how many ranks each object of Map gets, one object after the other. 0: ranks are assigned round-robin.
	PerObject int
	// PerNode is how many ranks each node of the job gets; the last nodes may get fewer. 0: the numbers differ by one at most.
	PerNode int
	// Bind is the object that each rank is bound to.
	Bind Level
	// CPUs is how many cores a rank gets, or hardware threads if Map or Bind is HWThread. 0: an equal share.
	CPUs int
	// Offset is how many slots of the node belong to other jobs, if Packed is set: this job uses one slot for each rank after
	// them, and other jobs may use the others.
	Offset int
	Packed bool
	// NodeSlots is how many slots the cores of the node are divided into. 0: a slot is a core, or CPUs cores.
	NodeSlots int
	// Strict makes more ranks than cores an error. Otherwise such ranks share the cores, unbound.
	Strict bool
	// Report requests the output of [Plan.Report].
	Report bool
	// File places each rank individually and overrides all other fields except Report. Nil: there is no rank file.
	File *RankFile
	// FilePath is the file to read File from: Set does not open files.
	FilePath string
}

// NeedsFullTopology reports whether the policy needs more of a topology than [hw.OnlyPUs] reads: devices or small caches.
func (p *Policy) NeedsFullTopology() bool {
	return slices.ContainsFunc([]Level{L1, L2, Device}, func(l Level) bool { return p.Map == l || p.Bind == l })
}

// NodeMapping returns the part of the policy that decides which rank runs on which node. It must be equal on all nodes of a job.
// Empty: each node gets a block of consecutive ranks, and the sizes of the blocks differ by one at most.
func (p *Policy) NodeMapping() string {
	switch {
	case p.File != nil:
		return "--rank-file " + strings.Join(p.File.hostsOfRanks(), ",")
	case p.Map == Node:
		return "--map-by node"
	case p.PerNode > 0:
		return fmt.Sprintf("--ppn %d", p.PerNode)
	}
	return ""
}

// ReadFile reads the rank file that FilePath names, if any. A syntax error in it is a [*inputfile.SyntaxError].
func (p *Policy) ReadFile() error {
	if p.FilePath == "" {
		return nil
	}
	text, err := inputfile.Read(p.FilePath, maxRankFileSize)
	if err != nil {
		return fmt.Errorf("read the rank file: %w", err)
	}
	p.File, err = ParseRankFile(p.FilePath, text)
	return err
}

// maxRankFileSize bounds the size of a rank file.
const maxRankFileSize = 64 << 20

// levelNames returns all accepted names of levels, including those of other launchers.
func levelNames() map[string]Level {
	return map[string]Level{
		"hwthread": HWThread, "pu": HWThread, "thread": HWThread, "threads": HWThread,
		"core": Core, "cores": Core, "cpu": Core,
		"l1cache": L1, "l1": L1, "l2cache": L2, "l2": L2, "l3cache": L3, "l3": L3,
		"numa": NUMA, "numanode": NUMA, "ldom": NUMA, "ldoms": NUMA,
		"package": Package, "socket": Package, "sockets": Package,
		"node": Node, "machine": Node, "host": Node,
		"device": Device,
	}
}

// knownLevels lists ibrun's own names of levels, for error messages.
const knownLevels = "hwthread, core, l1cache, l2cache, l3cache, numa, package, node or device"

// parseLevel returns the level with this name, in any spelling.
func parseLevel(name string) (Level, error) {
	if l, ok := levelNames()[strings.ToLower(name)]; ok {
		return l, nil
	}
	return "", fmt.Errorf("unknown object %q; choose one of %s", name, knownLevels)
}

// mapBy parses slot, LEVEL, ppr:N:LEVEL and device=WHICH, each with optional modifiers of Open MPI after it, or modifiers
// alone.
func (p *Policy) mapBy(value string) error {
	words := strings.Split(value, ":")
	q := Policy{Bind: p.Bind, Strict: p.Strict}
	if words[0] == "" && len(words) > 1 {
		q.Map, q.Device, q.PerObject = p.Map, p.Device, p.PerObject
		if err := q.setModifiers(words[1:]); err != nil {
			return err
		}
		p.setMapping(&q)
		return nil
	}
	if strings.EqualFold(words[0], "ppr") {
		if len(words) < 3 {
			return fmt.Errorf("want ppr:N:OBJECT, such as ppr:2:numa")
		}
		per, err := parseCount(words[1])
		if err != nil {
			return err
		}
		q.PerObject, words = per, words[2:]
	}
	name, which, _ := strings.Cut(words[0], "=")
	switch lower := strings.ToLower(name); {
	case lower == "slot" && q.PerObject == 0:
	case lower == "rankfile" && q.PerObject == 0:
	case slices.Contains([]string{"nic", "gpu"}, lower):
		q.Map, q.Device = Device, lower
	default:
		l, err := parseLevel(name)
		if err != nil {
			return fmt.Errorf("%w, slot or ppr:N:OBJECT", err)
		}
		q.Map, q.Device = l, which
		if which != "" && l != Device {
			return fmt.Errorf("%s does not accept =%s", name, which)
		}
		if which == "network" { // Open MPI's name for it
			q.Device = "nic"
		}
	}
	if err := q.setModifiers(words[1:]); err != nil {
		return err
	}
	if q.Map == Node && q.PerObject > 0 {
		p.PerNode, q.Map, q.PerObject = q.PerObject, Share, 0
	}
	if strings.EqualFold(name, "rankfile") && q.FilePath == "" && p.FilePath == "" {
		return fmt.Errorf("want rankfile:FILE=PATH")
	}
	p.setMapping(&q)
	return nil
}

// setMapping copies the fields that --map-by sets from q. An optional field that q does not set keeps its value.
func (p *Policy) setMapping(q *Policy) {
	p.Map, p.Device, p.PerObject, p.Bind, p.Strict = q.Map, q.Device, q.PerObject, q.Bind, q.Strict
	if q.CPUs > 0 {
		p.CPUs = q.CPUs
	}
	if q.FilePath != "" {
		p.FilePath = q.FilePath
	}
}

// setModifiers parses the modifiers of --map-by.
func (p *Policy) setModifiers(words []string) error {
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		switch strings.ToUpper(name) {
		case "PE":
			n, err := parseCount(value)
			if err != nil {
				return fmt.Errorf("PE=%s: %w", value, err)
			}
			p.CPUs = n
		case "FILE":
			p.FilePath = value
		case "OVERSUBSCRIBE":
			p.Strict = false
		case "NOOVERSUBSCRIBE":
			p.Strict = true
		case "HWTCPUS":
			if p.Bind == Share {
				p.Bind = HWThread
			}
		case "CORECPUS": // the default
		default:
			return fmt.Errorf("unknown modifier %q; choose PE=N, FILE=PATH, HWTCPUS, OVERSUBSCRIBE or NOOVERSUBSCRIBE", word)
		}
	}
	return nil
}

// bindTo parses none or LEVEL, with the modifiers of Open MPI or the number of MPICH's core:2.
func (p *Policy) bindTo(value string) error {
	words := strings.Split(value, ":")
	bind := None
	switch {
	case words[0] == "" && len(words) > 1: // only modifiers
		bind = p.Bind
	case !strings.EqualFold(words[0], "none"):
		l, err := parseLevel(words[0])
		if err != nil {
			return fmt.Errorf("%w, or none", err)
		}
		bind = l
	}
	cpus, report := 0, false
	for _, word := range words[1:] {
		n, err := parseCount(word)
		switch {
		case err == nil && (bind == Core || bind == HWThread):
			cpus = n
		case strings.EqualFold(word, "report"):
			report = true
		case strings.EqualFold(word, "overload-allowed") || strings.EqualFold(word, "if-supported"): // the default
		default:
			return fmt.Errorf("unknown modifier %q; choose report, or a number after core or hwthread", word)
		}
	}
	p.Bind = bind
	p.Report = p.Report || report
	if cpus > 0 {
		p.CPUs = cpus
	}
	return nil
}

// maxCount bounds the numbers of a policy, so that products of two of them fit.
const maxCount = 1 << 20

// parseCount parses a number from 1 to maxCount.
func parseCount(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxCount {
		return 0, fmt.Errorf("invalid value %q: want a number from 1 to %d", text, maxCount)
	}
	return n, nil
}
