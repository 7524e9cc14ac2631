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
	Names []string // without dashes; the first is ours, the others are what launchers of the field call it
	Arg   string   // what stands for its value in the help; empty for a switch
	Help  string   // empty for what is only there for those who are used to it
	Set   func(p *Policy, value string) error
}

// Flags are all flags that make up a [Policy]. A switch is set with the value "true", or not at all.
func Flags() []Flag {
	return slices.Concat(ourFlags(), classicFlags())
}

func ourFlags() []Flag {
	return []Flag{
		{[]string{"map-by", "rank-map-by"}, "OBJECT",
			"deal ranks out to the objects in turn: slot, core, l3cache, numa, package, node, device, or ppr:N:OBJECT", (*Policy).mapBy},
		{[]string{"bind-to"}, "OBJECT|none",
			"bind a rank to the core, l3cache, numa, package, ... it is on; without it, to its share of the cores", (*Policy).bindTo},
		{[]string{"cpus-per-rank", "cpus-per-proc", "cpus-per-task", "c", "tpp"}, "N", "give each rank N cores",
			func(p *Policy, s string) (err error) {
				p.CPUs, err = count(s)
				return err
			}},
		{[]string{"ppn", "npernode", "ntasks-per-node", "tasks-per-node", "perhost"}, "N", "start N ranks on each node",
			func(p *Policy, s string) (err error) {
				p.PerNode, err = count(s)
				return err
			}},
		{[]string{"offset"}, "N", "leave the first N slots of the node free",
			func(p *Policy, s string) error {
				n, err := strconv.Atoi(s)
				if err != nil || n < 0 || n > maxCount {
					return fmt.Errorf("%q is no number of slots", s)
				}
				p.Offset = n
				return nil
			}},
		{[]string{"rank-file", "rankfile", "rf"}, "FILE", "place ranks as the lines of FILE say: rank 0=host slot=0-3",
			func(p *Policy, s string) error {
				p.FilePath = s
				return nil
			}},
		{[]string{"report-bindings"}, "", "print what each rank is bound to", func(p *Policy, s string) (err error) {
			if p.Report, err = strconv.ParseBool(s); err != nil {
				return errors.New("a switch is true or false")
			}
			return nil
		}},
	}
}

// classicFlags are spellings of Open MPI, MPICH and Slurm that say the same in other words.
func classicFlags() []Flag {
	flags := []Flag{
		{[]string{"npersocket", "ntasks-per-socket"}, "N", "", per(Package)},
		{[]string{"m", "distribution"}, "HOW", "", (*Policy).distribution},
		{[]string{"cpu-bind", "cpu_bind"}, "HOW", "", (*Policy).cpuBind},
		{[]string{"display"}, "WHAT", "", (*Policy).display},
	}
	for _, word := range []string{"slot", "node", "core", "socket", "numa"} {
		flags = append(flags, toggle("by"+word, func(p *Policy) error { return p.mapBy(word) }))
	}
	for _, word := range []string{"none", "core", "socket"} {
		flags = append(flags, toggle("bind-to-"+word, func(p *Policy) error { return p.bindTo(word) }))
	}
	for _, word := range []string{"display-map", "display-allocation"} { // Open MPI's before version 5
		flags = append(flags, toggle(word, func(p *Policy) error { p.Report = true; return nil }))
	}
	flags = append(flags, toggle("use-hwthread-cpus", (*Policy).threadSlots))
	return append(flags, toggle("oversubscribe", func(p *Policy) error { p.Strict = false; return nil }),
		toggle("nooversubscribe", func(p *Policy) error { p.Strict = true; return nil }))
}

// Ambiguous says what to write instead of flags that mean one thing here and another there, by their names.
func Ambiguous() map[string]string {
	return map[string]string{
		"N": "it is the ranks of a node in Open MPI and the number of nodes in Slurm; write --ppn N or --node K/N",
		"o": "it is an offset in TACC's ibrun and a file for the output in Slurm; write --offset N or --output PATTERN",
	}
}

// display is Open MPI's.
func (p *Policy) display(s string) error {
	for word := range strings.SplitSeq(s, ",") {
		if word != "bindings" && word != "map" && word != "map-devel" {
			return fmt.Errorf("%q cannot be displayed; write bindings or map, or have ibrun topo draw the node", word)
		}
	}
	p.Report = true
	return nil
}

// threadSlots has hardware threads count where cores do otherwise.
func (p *Policy) threadSlots() error {
	if p.Map == Share {
		p.Map = HWThread
	}
	if p.Bind == Share {
		p.Bind = HWThread
	}
	return nil
}

// toggle is a switch that does something when it is on.
func toggle(name string, do func(*Policy) error) Flag {
	return Flag{Names: []string{name}, Set: func(p *Policy, s string) error {
		on, err := strconv.ParseBool(s)
		switch {
		case err != nil:
			return errors.New("a switch is true or false")
		case !on:
			return nil
		}
		return do(p)
	}}
}

// per is ppr:N:LEVEL.
func per(l Level) func(*Policy, string) error {
	return func(p *Policy, s string) error {
		n, err := count(s)
		if err != nil {
			return err
		}
		p.Map, p.Per = l, n
		return nil
	}
}

// distribution is Slurm's: how ranks go to nodes, and after a colon how to the packages of each.
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
	return fmt.Errorf("%q is no distribution that is known here; write block, cyclic or block:cyclic", s)
}

// cpuBind is Slurm's.
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
			return fmt.Errorf("%q is not known here; write verbose, none, threads, cores, sockets or ldoms, "+
				"and for single PUs a --rank-file", word)
		}
	}
	return nil
}

// Set sets the flag of that name, in any spelling, without dashes. The error says what is wrong with the value.
func (p *Policy) Set(name, value string) error {
	if why, ok := Ambiguous()[name]; ok {
		return errors.New(why)
	}
	for _, f := range Flags() {
		if slices.Contains(f.Names, name) {
			return f.Set(p, value)
		}
	}
	return fmt.Errorf("%s is no flag of placement", name)
}
