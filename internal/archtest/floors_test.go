package archtest

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// floors is the policy: which package may import which. It states what the house looks like, so it is not edited to
// make a build pass. Packages that are not there yet may be named.
//
// "a, b < c" means that c may import a and b; in a chain "a < b < c" it means that c may import a as well. Nothing
// follows from two statements together: what a package may import is written down for it. "a !< c" means that c
// must not reach a, not even through others. "x/*" is every package below x. Everything may import the standard
// library and the modules named in go.mod, and tests may import what they need.
const floors = `
# Floor 0: small things that know nothing of RDMA or MPI.
NONE < attrs, internal/ticks, internal/pollyield, internal/auth, internal/memaddr, perf/profile, internal/abi/*;
NONE < internal/archtest, internal/conformance;
internal/ticks < perf;
hw, perf < perf/prom;
NONE < internal/pmi;
internal/auth < internal/ranklink;

# Floor 1: the node, and rings in memory that processes share.
NONE < hw < hw/hwtest;
NONE < internal/shm;

# Floor 2: queue pairs, completion queues, memory regions; links and guests that have them.
internal/abi/* < verbs/internal/*, verbs;
internal/memaddr < verbs/internal/uverbs, verbs, verbs/verbstest;
NONE < verbs/internal/ib < verbs/internal/uverbs < verbs/internal/rxe;
verbs/internal/ib < verbs/internal/libibverbs;
hw < verbs/internal/rxetest;
hw, verbs/internal/* < verbs < verbs/verbstest;
internal/abi/* < soft-roce/link < soft-roce/live;
NONE < soft-roce/vm/internal/mux < soft-roce/vm/internal/guest;
soft-roce/link < soft-roce/vm/internal/guest;
NONE < soft-roce/vm/internal/*;
soft-roce/link, soft-roce/vm/internal/* < soft-roce/vm;

# Floor 3: the seam, and what moves bytes between peers.
internal/auth < fabric/tcp, fabric/shm, fabric/rdma;
internal/memaddr < fabric/shm, fabric/rdma;
NONE < fabric < fabric/mem, fabric/tcp, fabric/hook, fabric/fabrictest;
fabric, internal/shm < fabric/shm;
fabric, verbs, hw < fabric/rdma;
fabric, fabric/mem, fabric/shm, fabric/tcp, fabric/rdma, verbs < fabric/auto;

# Floor 4: where the process stands, tag matching, datatypes, algorithms, protocols.
hw < mpi/internal/clocksync;
fabric, fabric/auto, hw, internal/pmi, internal/ranklink, internal/shm, mpi/internal/clocksync < mpi/internal/bootstrap;
NONE < mpi/internal/match, mpi/internal/datatype;
fabric < mpi/internal/regcache;
internal/shm, mpi/internal/datatype < mpi/internal/coll;
fabric, perf, internal/pollyield, mpi/internal/match, mpi/internal/regcache < mpi/internal/proto;

# Floor 5: communicators, messages, collectives.
attrs, hw, perf, perf/profile, fabric, mpi/internal/* < mpi;
hw, fabric, fabric/mem, fabric/auto, mpi/internal/bootstrap, mpi/internal/clocksync, mpi < mpi/mpitest;
fabric/auto, mpi/internal/proto < mpi/explain;

# Floor 6: programs.
internal/ticks, perf, mpi < bench;
mpi < examples/*;
NONE < docs/dashboards;                                      # a test only
hw, verbs < examples/pingpong;
internal/ticks, internal/pollyield, verbs < bench/perftest;
NONE < bench/sockets;
internal/auth < cmd/ibrun/internal/control;
hw < cmd/ibrun/internal/placement;
hw, perf < cmd/ibrun/internal/report;
cmd/ibrun/internal/placement, cmd/ibrun/internal/report < cmd/ibrun/internal/cli;
perf, perf/prom < cmd/ibrun/internal/exporter;
hw, perf, perf/profile < cmd/ibrun/internal/tracemerge;
NONE < cmd/ibrun/internal/tracemerge/tracetest;
hw, perf < cmd/ibrun/internal/inspect;
hw, perf, perf/profile, perf/prom, internal/auth, internal/shm, internal/pmi, internal/ranklink < cmd/ibrun/internal/launch;
cmd/ibrun/internal/exporter, cmd/ibrun/internal/tracemerge < cmd/ibrun/internal/launch;
cmd/ibrun/internal/inspect, cmd/ibrun/internal/report < cmd/ibrun/internal/launch;
cmd/ibrun/internal/placement, cmd/ibrun/internal/cli, cmd/ibrun/internal/control < cmd/ibrun/internal/launch;
cmd/ibrun/internal/cli, cmd/ibrun/internal/launch, mpi, bench, bench/*, hw, verbs < cmd/ibrun/internal/benchcmd;
cmd/ibrun/internal/cli, bench, mpi/explain < cmd/ibrun/internal/explain;
cmd/ibrun/internal/cli, cmd/ibrun/internal/launch, soft-roce/link < cmd/ibrun/internal/softroce;
hw, cmd/ibrun/internal/placement < cmd/ibrun/internal/topo;
hw, verbs < cmd/ibrun/internal/doctor;
hw, perf, perf/prom, cmd/ibrun/internal/* < cmd/ibrun;

# What must never be reached, by whatever way.
mpi, mpi/*, fabric, fabric/* !< cmd/ibrun/internal/launch;   # it starts any program, ours or not
fabric/* !< fabric;                                          # fabric/auto knows the transports, the seam knows none
perf/prom !< mpi, bench, examples/*, fabric/*;               # a program with messages does not link an exporter
cmd/*, examples/* !< mpi, fabric, verbs, bench;
`

// policy is the floors text, taken apart.
type policy struct {
	may   map[string][]string // pattern of importing packages: patterns it may import
	never []ban
}

// ban says that packages must not reach others.
type ban struct{ from, reach []string }

func parsePolicy(text string) policy {
	p := policy{may: map[string][]string{}}
	for stmt := range strings.SplitSeq(strings.Join(slices.Collect(lines(text)), " "), ";") {
		if left, right, isBan := strings.Cut(stmt, "!<"); isBan {
			p.never = append(p.never, ban{from: names(right), reach: names(left)})
			continue
		}
		var below []string
		for list := range strings.SplitSeq(stmt, "<") {
			for _, n := range names(list) {
				p.may[n] = append(p.may[n], below...)
			}
			below = append(below, names(list)...)
		}
	}
	return p
}

func names(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' })
}

// covers tells whether a package is one that the pattern names.
func covers(pattern, dir string) bool {
	if above, ok := strings.CutSuffix(pattern, "/*"); ok {
		return strings.HasPrefix(dir, above+"/")
	}
	return pattern == dir
}

func coversAny(patterns []string, dir string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return covers(p, dir) })
}

func checkFloors(t *tree, text string) []breach {
	pol := parsePolicy(text)
	var bs []breach
	for _, p := range t.pkgs {
		may, known := pol.allows(p.dir)
		if !known {
			bs = append(bs, breach{at: p.dir, what: "this package stands on no floor",
				mend: "decide where it belongs and name it in internal/archtest/floors_test.go"})
			continue
		}
		for _, f := range p.sources() {
			for im, what := range f.imports {
				dir, ours := ourDir(what)
				if ours && !coversAny(may, dir) {
					bs = append(bs, breach{at: t.at(im), what: fmt.Sprintf("%s imports %s, which is not below it", p.dir, dir),
						mend: "turn the dependency round, or declare an interface here that the package above fills in"})
				}
			}
		}
	}
	for _, b := range pol.never {
		bs = append(bs, t.checkBan(b)...)
	}
	return bs
}

// allows collects what the policy lets a package import, and whether the policy names it at all.
func (p policy) allows(dir string) (may []string, known bool) {
	for pattern, below := range p.may {
		if covers(pattern, dir) {
			may, known = append(may, below...), true
		}
	}
	return may, known
}

// checkBan looks for the shortest way from a package to one that it must not reach.
func (t *tree) checkBan(b ban) []breach {
	var bs []breach
	for _, p := range t.pkgs {
		if !coversAny(b.from, p.dir) {
			continue
		}
		way := map[string]string{p.dir: ""} // package: the one that imports it
		for queue := []string{p.dir}; len(queue) > 0; queue = queue[1:] {
			at := queue[0]
			if at != p.dir && coversAny(b.reach, at) {
				bs = append(bs, breach{at: p.dir, what: "must not reach " + at + ", but does: " + route(way, at),
					mend: "break one of these imports"})
				break
			}
			for _, next := range t.ours(at) {
				if _, seen := way[next]; !seen {
					way[next] = at
					queue = append(queue, next)
				}
			}
		}
	}
	return bs
}

func route(way map[string]string, to string) string {
	r := to
	for at := way[to]; at != ""; at = way[at] {
		r = at + " -> " + r
	}
	return r
}

// ours lists the packages of this module that one imports outside its tests.
func (t *tree) ours(dir string) []string {
	p := t.find(dir)
	if p == nil {
		return nil
	}
	var ds []string
	for _, f := range p.sources() {
		for _, what := range f.imports {
			if d, ok := ourDir(what); ok {
				ds = append(ds, d)
			}
		}
	}
	return ds
}

// ourDir is the folder of an import path of this module.
func ourDir(imported string) (string, bool) {
	rest, ok := strings.CutPrefix(imported, module)
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	return path.Clean(strings.TrimPrefix(rest, "/")), true
}
