package placement

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Level is a kind of object that a node is made of, under the name that --map-by and --bind-to know.
type Level string

// The levels, smallest first, and what is no object: a rank's share of the cores, and nothing.
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

// Policy is what the user asked for. The zero Policy gives each rank of a node an equal share of its cores.
type Policy struct {
	// Map is what ranks are dealt out to. With Node, to the nodes of the job in turn; with all others nodes are filled one
	// after the other.
	Map Level
	// Device is which devices Map Device means: "nic", "gpu" or the name of one. Empty: nic.
	Device string
	// Per is how many ranks each object of Map gets, one object after the other. 0: they are dealt out in turn.
	Per int
	// PerNode is how many ranks each node of the job gets, the last ones perhaps fewer. 0: equally many, or one more.
	PerNode int
	// Bind is what ranks are bound to.
	Bind Level
	// CPUs is how many cores a rank gets, hardware threads where Map or Bind is HWThread. 0: an equal share.
	CPUs int
	// Offset is how many slots of the node stay free: cores, or CPUs cores each.
	Offset int
	// Strict refuses more ranks than cores. Otherwise they share, unbound.
	Strict bool
	// Report asks for [Plan.Report].
	Report bool
	// File places ranks one by one, and takes the place of all but Report. Nil: none.
	File *RankFile
	// FilePath is where File is to be read from: Set does not open files.
	FilePath string
}

// Needs tells whether the policy stands on more of a topology than [hw.OnlyPUs] reads: devices and small caches.
func (p *Policy) Needs() bool {
	return slices.ContainsFunc([]Level{L1, L2, Device}, func(l Level) bool { return p.Map == l || p.Bind == l })
}

// Across says what of the policy decides which rank is on which node, on which all nodes of a job must agree. Empty: each
// node has as many ranks as any other or one more, next to each other.
func (p *Policy) Across() string {
	switch {
	case p.File != nil:
		return "--rank-file " + strings.Join(p.File.hosts(), ",")
	case p.Map == Node:
		return "--map-by node"
	case p.PerNode > 0:
		return fmt.Sprintf("--ppn %d", p.PerNode)
	}
	return ""
}

// ReadFile reads the rank file that FilePath names, if any. The error is a [*SyntaxError] where it has one to point at.
func (p *Policy) ReadFile() error {
	if p.FilePath == "" {
		return nil
	}
	f, err := os.Open(p.FilePath)
	if err != nil {
		return fmt.Errorf("read the rank file: %w", err)
	}
	defer f.Close() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return fmt.Errorf("read the rank file: %w", err)
	case len(text) > maxFile:
		return fmt.Errorf("read the rank file: %s has more than %d MiB", p.FilePath, maxFile>>20)
	}
	p.File, err = ParseRankFile(p.FilePath, string(text))
	return err
}

// maxFile bounds a rank file, which may be what was not meant to be one.
const maxFile = 64 << 20

// levelNames are the names of levels that are in use, ours first.
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

// known lists the names that we use ourselves.
const known = "hwthread, core, l1cache, l2cache, l3cache, numa, package, node or device"

func level(name string) (Level, error) {
	if l, ok := levelNames()[strings.ToLower(name)]; ok {
		return l, nil
	}
	return "", fmt.Errorf("%q is no part of a node; write %s", name, known)
}

// mapBy reads slot, LEVEL, ppr:N:LEVEL and device=WHICH, each with Open MPI's modifiers behind it, or these alone.
func (p *Policy) mapBy(value string) error {
	words := strings.Split(value, ":")
	q := Policy{Bind: p.Bind, Strict: p.Strict}
	if words[0] == "" && len(words) > 1 {
		q.Map, q.Device, q.Per = p.Map, p.Device, p.Per
		if err := q.modify(words[1:]); err != nil {
			return err
		}
		p.accept(&q)
		return nil
	}
	if strings.EqualFold(words[0], "ppr") {
		if len(words) < 3 {
			return fmt.Errorf("ppr is written ppr:N:OBJECT, as in ppr:2:numa")
		}
		per, err := count(words[1])
		if err != nil {
			return err
		}
		q.Per, words = per, words[2:]
	}
	name, which, _ := strings.Cut(words[0], "=")
	switch lower := strings.ToLower(name); {
	case lower == "slot" && q.Per == 0:
	case lower == "rankfile" && q.Per == 0:
	case slices.Contains([]string{"nic", "gpu"}, lower):
		q.Map, q.Device = Device, lower
	default:
		l, err := level(name)
		if err != nil {
			return fmt.Errorf("%w, slot or ppr:N:OBJECT", err)
		}
		q.Map, q.Device = l, which
		if which != "" && l != Device {
			return fmt.Errorf("%s takes no =%s", name, which)
		}
		if which == "network" { // as Open MPI calls it
			q.Device = "nic"
		}
	}
	if err := q.modify(words[1:]); err != nil {
		return err
	}
	if q.Map == Node && q.Per > 0 {
		p.PerNode, q.Map, q.Per = q.Per, Share, 0
	}
	if strings.EqualFold(name, "rankfile") && q.FilePath == "" && p.FilePath == "" {
		return fmt.Errorf("write rankfile:FILE=PATH")
	}
	p.accept(&q)
	return nil
}

// accept takes over what --map-by says. What it may say and does not is as before.
func (p *Policy) accept(q *Policy) {
	p.Map, p.Device, p.Per, p.Bind, p.Strict = q.Map, q.Device, q.Per, q.Bind, q.Strict
	if q.CPUs > 0 {
		p.CPUs = q.CPUs
	}
	if q.FilePath != "" {
		p.FilePath = q.FilePath
	}
}

// modify reads the modifiers of --map-by.
func (p *Policy) modify(words []string) error {
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		switch strings.ToUpper(name) {
		case "PE":
			n, err := count(value)
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
		case "CORECPUS": // as always
		default:
			return fmt.Errorf("modifier %q is not known; write PE=N, FILE=PATH, HWTCPUS, OVERSUBSCRIBE or NOOVERSUBSCRIBE", word)
		}
	}
	return nil
}

// bindTo reads none or LEVEL, with the modifiers of Open MPI or the number of MPICH's core:2.
func (p *Policy) bindTo(value string) error {
	words := strings.Split(value, ":")
	bind := None
	switch {
	case words[0] == "" && len(words) > 1: // modifiers alone
		bind = p.Bind
	case !strings.EqualFold(words[0], "none"):
		l, err := level(words[0])
		if err != nil {
			return fmt.Errorf("%w, or none", err)
		}
		bind = l
	}
	cpus, report := 0, false
	for _, word := range words[1:] {
		n, err := count(word)
		switch {
		case err == nil && (bind == Core || bind == HWThread):
			cpus = n
		case strings.EqualFold(word, "report"):
			report = true
		case strings.EqualFold(word, "overload-allowed") || strings.EqualFold(word, "if-supported"): // as always
		default:
			return fmt.Errorf("modifier %q is not known; write report, or after core or hwthread their number", word)
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

// count reads a number from 1.
func count(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxCount {
		return 0, fmt.Errorf("%q is no number from 1 to %d", text, maxCount)
	}
	return n, nil
}
