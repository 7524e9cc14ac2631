package placement

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Flag is one flag of the command line.
type Flag struct {
	Names []string // without dashes; the first is ibrun's own, the others are those of other launchers
	Arg   string   // the name of its value in the help; empty for a boolean flag
	Help  string   // empty for spellings that exist only for compatibility with other launchers
	Set   func(p *Policy, value string) error
}

// Flags returns all flags that make up a [Policy]. A boolean flag accepts the values "true" and "false".
func Flags() []Flag {
	return slices.Concat(nativeFlags(), compatibilityFlags())
}

// nativeFlags returns the flags that the help lists.
func nativeFlags() []Flag {
	return []Flag{
		{[]string{"map-by", "rank-map-by"}, "OBJECT",
			"assign ranks to these objects round-robin: slot, core, l3cache, numa, package, node, device, or ppr:N:OBJECT",
			(*Policy).mapBy},
		{[]string{"bind-to"}, "OBJECT|none",
			"bind each rank to one core, l3cache, numa, package, ... (default: an equal share of the cores)", (*Policy).bindTo},
		{[]string{"cpus-per-rank", "cpus-per-proc", "cpus-per-task", "c", "tpp"}, "N", "give each rank N cores",
			func(p *Policy, s string) (err error) {
				p.CPUs, err = parseCount(s)
				return err
			}},
		{[]string{"ppn", "npernode", "ntasks-per-node", "tasks-per-node", "perhost"}, "N", "start N ranks on each node",
			func(p *Policy, s string) (err error) {
				p.PerNode, err = parseCount(s)
				return err
			}},
		{[]string{"offset", "o"}, "N", "skip the first N slots, and use only the next ones, so that several jobs share the hosts",
			func(p *Policy, s string) error {
				n, err := strconv.Atoi(s)
				if err != nil || n < 0 || n > maxCount {
					return fmt.Errorf("invalid number of slots %q (-o is an offset, as in TACC's ibrun; the output goes to files with "+
						"--output PATTERN)", s)
				}
				p.Offset, p.Packed = n, true
				return nil
			}},
		{[]string{"rank-file", "rankfile", "rf"}, "FILE", "place ranks as listed in FILE: rank 0=host slot=0-3",
			func(p *Policy, s string) error {
				p.FilePath = s
				return nil
			}},
		{[]string{"report-bindings"}, "", "print the binding of each rank", func(p *Policy, s string) (err error) {
			if p.Report, err = strconv.ParseBool(s); err != nil {
				return errors.New("want true or false")
			}
			return nil
		}},
	}
}

// compatibilityFlags returns the equivalent flags of Open MPI, MPICH and Slurm.
func compatibilityFlags() []Flag {
	flags := []Flag{
		{[]string{"npersocket", "ntasks-per-socket"}, "N", "", perObject(Package)},
		{[]string{"m", "distribution"}, "HOW", "", (*Policy).distribution},
		{[]string{"cpu-bind", "cpu_bind"}, "HOW", "", (*Policy).cpuBind},
		{[]string{"display"}, "WHAT", "", (*Policy).display},
	}
	for _, word := range []string{"slot", "node", "core", "socket", "numa"} {
		flags = append(flags, boolFlag("by"+word, func(p *Policy) error { return p.mapBy(word) }))
	}
	for _, word := range []string{"none", "core", "socket"} {
		flags = append(flags, boolFlag("bind-to-"+word, func(p *Policy) error { return p.bindTo(word) }))
	}
	for _, word := range []string{"display-map", "display-allocation"} { // Open MPI's before version 5
		flags = append(flags, boolFlag(word, func(p *Policy) error { p.Report = true; return nil }))
	}
	flags = append(flags, boolFlag("use-hwthread-cpus", (*Policy).useHWThreads))
	return append(flags, boolFlag("oversubscribe", func(p *Policy) error { p.Strict = false; return nil }),
		boolFlag("nooversubscribe", func(p *Policy) error { p.Strict = true; return nil }))
}

// AmbiguousFlags returns the flags whose meaning differs between launchers, each with the flags to use instead.
func AmbiguousFlags() map[string]string {
	return map[string]string{
		"N": "it is the number of ranks per node in Open MPI and the number of nodes in Slurm; write --ppn N or --node K/N",
	}
}

// display implements Open MPI's --display.
func (p *Policy) display(s string) error {
	for word := range strings.SplitSeq(s, ",") {
		if word != "bindings" && word != "map" && word != "map-devel" {
			return fmt.Errorf("cannot display %q; choose bindings or map (ibrun topo draws the node)", word)
		}
	}
	p.Report = true
	return nil
}

// useHWThreads makes hardware threads the slots instead of cores.
func (p *Policy) useHWThreads() error {
	if p.Map == Share {
		p.Map = HWThread
	}
	if p.Bind == Share {
		p.Bind = HWThread
	}
	return nil
}

// boolFlag returns a boolean flag that calls do if it is true.
func boolFlag(name string, do func(*Policy) error) Flag {
	return Flag{Names: []string{name}, Set: func(p *Policy, s string) error {
		on, err := strconv.ParseBool(s)
		switch {
		case err != nil:
			return errors.New("want true or false")
		case !on:
			return nil
		}
		return do(p)
	}}
}

// perObject returns the setter of a flag that means ppr:N:LEVEL.
func perObject(l Level) func(*Policy, string) error {
	return func(p *Policy, s string) error {
		n, err := parseCount(s)
		if err != nil {
			return err
		}
		p.Map, p.PerObject = l, n
		return nil
	}
}

// distribution implements Slurm's --distribution: how ranks are distributed to nodes and, after a colon, to the packages of
// a node.
func (p *Policy) distribution(s string) error {
	nodes, packages, _ := strings.Cut(s, ":")
	switch {
	case nodes == "cyclic" && (packages == "" || packages == "*"):
		return p.mapBy("node")
	case (nodes == "block" || nodes == "*") && packages == "cyclic":
		return p.mapBy("package")
	case (nodes == "block" || nodes == "*") && (packages == "" || packages == "*" || packages == "block"):
		return p.mapBy("slot")
	}
	return fmt.Errorf("unknown distribution %q; choose block, cyclic or block:cyclic", s)
}

// cpuBind implements Slurm's --cpu-bind.
func (p *Policy) cpuBind(s string) error {
	for word := range strings.SplitSeq(s, ",") {
		switch word {
		case "verbose", "v":
			p.Report = true
		case "quiet", "q":
		case "none", "no":
			p.Bind = None
		case "threads", "cores", "sockets", "ldoms":
			if err := p.bindTo(word); err != nil {
				return err
			}
		default:
			return fmt.Errorf("unsupported value %q; choose verbose, none, threads, cores, sockets or ldoms, "+
				"or place ranks on single PUs with --rank-file", word)
		}
	}
	return nil
}

// Set sets the flag with this name, in any spelling, without dashes. An error describes the invalid value.
func (p *Policy) Set(name, value string) error {
	if why, ok := AmbiguousFlags()[name]; ok {
		return errors.New(why)
	}
	for _, f := range Flags() {
		if slices.Contains(f.Names, name) {
			return f.Set(p, value)
		}
	}
	return fmt.Errorf("unknown placement flag %s", name)
}
