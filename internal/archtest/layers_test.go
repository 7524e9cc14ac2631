package archtest

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// layers is the policy: it says which package may import which. It defines the architecture, so do not edit it just to make
// a build pass.
//
// "a, b < c" means that c may import a and b. In a chain "a < b < c", c may import a as well as b. Statements do not combine:
// "a < b; b < c" does not allow c to import a. "a !< c" means that c must not import a, neither directly nor through other
// packages. "x/*" is every package below x. NONE is not a package: "NONE < a" only says that a exists.
//
// Every package may import the standard library and the modules named in go.mod. Tests may import any package.
const layers = `
# Layer 0: basic packages without knowledge of RDMA or MPI.
NONE < internal/crc32c;
NONE < attrs, internal/ticks, internal/pollyield, internal/auth, internal/encrypt, internal/memaddr, perf/profile, internal/abi/*;
NONE < internal/admission, internal/printable, internal/tcpflow;
NONE < internal/archtest, internal/conformance, internal/flaky, internal/apitest, internal/buildinfo, internal/sbom;
NONE < internal/schematest;
NONE < internal/freeport < cmd/ibrun/internal/benchcmd;
NONE < internal/samples < bench, bench/startup, cmd/ibrun/internal/benchcmd;
NONE < internal/transports < internal/tunables;
NONE < internal/leakcheck < fabric/fabrictest, verbs/verbstest;
NONE < internal/alloctest < fabric/fabrictest;
NONE < internal/waittest, internal/threadtest, internal/ptytest;
NONE < internal/soaktest < verbs/verbstest;
NONE < internal/needtest < internal/abi/layout, internal/ibvmock, internal/openmpitest, internal/mpi4pytest;
internal/ticks, internal/transports < perf < internal/tunables;
hw, internal/buildinfo, perf < perf/prom;
perf < internal/jobsocket < perf/jobs;
NONE < internal/pmi;
NONE < internal/dlopen;
hw, internal/abi/*, internal/dlopen < internal/ibvmock;
internal/abi/*, internal/dlopen < internal/pmix;
NONE < internal/docpages;
NONE < internal/openmpitest < internal/mpi4pytest;
NONE < internal/fdpass;
internal/fdpass < internal/fdpass/fdpasstest;
internal/auth, internal/fdpass < internal/ranklink;
internal/auth, internal/fdpass, hw < internal/wakesock;

# Layer 1: the hardware of this node, and rings in shared memory.
NONE < hw < hw/hwtest;
internal/fdpass < internal/shm;

# Layer 2: queue pairs, completion queues, memory regions; software RDMA devices, and virtual machines that have them.
internal/abi/* < verbs/internal/*, verbs;
internal/memaddr < verbs/internal/uverbs, verbs, verbs/verbstest;
NONE < verbs/internal/uverbs < verbs/internal/ib < verbs/internal/rxe;
internal/dlopen, verbs/internal/ib < verbs/internal/libibverbs;
verbs/internal/ib, verbs/internal/rxe, verbs/internal/libibverbs < verbs/internal/providers;
hw < verbs/internal/rxetest;
hw, verbs/internal/uverbs, verbs/internal/ib, verbs/internal/providers < verbs;   # no provider itself
hw, verbs/internal/ib, verbs/internal/providers, verbs < verbs/internal/opener;
hw, verbs/internal/*, verbs < verbs/verbstest;
internal/abi/* < soft-roce/link < soft-roce/live;
NONE < soft-roce/vm/internal/mux < soft-roce/vm/internal/guest;
soft-roce/link < soft-roce/vm/internal/guest;
NONE < soft-roce/vm/internal/*;
soft-roce/link, soft-roce/vm/internal/* < soft-roce/vm;

# Layer 3: the fabric interface, and the transports that implement it.
internal/auth < fabric/tcp, fabric/shm, fabric/rdma, fabric/auto;
internal/encrypt, internal/crc32c < fabric/tcp;
internal/admission, internal/tcpflow < fabric/tcp;
internal/printable < fabric/auto;   # for the reasons that peers give
internal/memaddr < fabric/shm, fabric/rdma;
NONE < fabric < fabric/mem, fabric/tcp, fabric/hook, fabric/fabrictest;
internal/transports < fabric/mem, fabric/shm, fabric/tcp, fabric/rdma, fabric/auto;
internal/tunables < fabric/tcp, fabric/rdma, fabric/auto;
fabric, internal/shm, internal/fdpass, internal/wakesock < fabric/shm;
fabric, verbs, hw < fabric/rdma;
verbs < fabric/rdma/internal/liveness < fabric/rdma;
fabric, verbs, fabric/rdma/internal/liveness < fabric/rdma/internal/sleep < fabric/rdma;
fabric, verbs, hw, internal/auth, internal/printable < fabric/rdma/internal/cm < fabric/rdma;
fabric, verbs, hw, internal/tunables, fabric/rdma/internal/cm < fabric/rdma/internal/devices < fabric/rdma;
fabric, verbs, fabric/rdma/internal/cm, fabric/rdma/internal/devices, fabric/rdma/internal/liveness, fabric/rdma/internal/memory
	< fabric/rdma/internal/datagrams < fabric/rdma;
fabric < fabric/rdma/internal/memory < fabric/rdma;
fabric, verbs, fabric/rdma/internal/liveness, fabric/rdma/internal/memory < fabric/rdma/internal/messages < fabric/rdma;
fabric, verbs, internal/memaddr, fabric/rdma/internal/cm, fabric/rdma/internal/memory
	< fabric/rdma/internal/transfer < fabric/rdma;
fabric, verbs, internal/memaddr, fabric/rdma/internal/cm, fabric/rdma/internal/liveness, fabric/rdma/internal/messages,
	fabric/rdma/internal/transfer < fabric/rdma/internal/posting < fabric/rdma;
verbs, fabric/rdma/internal/cm, fabric/rdma/internal/posting < fabric/rdma/internal/closing < fabric/rdma;
fabric, fabric/mem, fabric/shm, fabric/tcp, fabric/rdma, verbs < fabric/auto;

# Layer 4: bootstrap, tag matching, datatypes, reductions, collective algorithms, message protocols; communicators on bytes.
hw < mpi/internal/clocksync;
fabric, fabric/auto, hw, internal/pmi, internal/pmix, internal/ranklink, internal/shm, internal/wakesock, mpi/internal/clocksync
	< mpi/internal/bootstrap;
NONE < mpi/internal/match;
hw < mpi/internal/topology;
fabric < mpi/internal/datatype;
mpi/internal/datatype < mpi/internal/reduction, mpi/internal/coll;
mpi/internal/reduction < mpi/internal/coll;
fabric < mpi/internal/regcache;
internal/shm < mpi/internal/coll;
fabric, perf, internal/pollyield, internal/ticks, mpi/internal/match, mpi/internal/regcache,
	mpi/internal/datatype < mpi/internal/proto;
fabric < mpi/internal/wire < mpi/internal/proto;
perf, mpi/internal/datatype < mpi/internal/notes < mpi/internal/proto, mpi/internal/core;
fabric, mpi/internal/wire < mpi/internal/protocols < mpi/internal/proto, mpi/internal/core;
mpi/internal/protocols < mpi/internal/proto/internal/cost;
mpi/internal/wire, mpi/internal/proto/internal/lock, perf < mpi/internal/proto/internal/record;
NONE < mpi/internal/proto/internal/lock, mpi/internal/proto/internal/ended, mpi/internal/proto/internal/attached,
	mpi/internal/proto/internal/blocks;
internal/ticks < mpi/internal/proto/internal/processor;
fabric < mpi/internal/proto/internal/parker, mpi/internal/proto/internal/rtr;
mpi/internal/proto/internal/* < mpi/internal/proto;
perf, mpi/internal/coll, mpi/internal/datatype, mpi/internal/reduction < mpi/internal/core/internal/checking;
mpi/internal/proto < mpi/internal/core/internal/contextids;
fabric, mpi/internal/clocksync, mpi/internal/coll, mpi/internal/proto < mpi/internal/core/internal/clocks;
perf, mpi/internal/core/internal/contextids, mpi/internal/proto, mpi/internal/reduction < mpi/internal/core/internal/creation;
mpi/internal/core/internal/* < mpi/internal/core;
attrs, hw, perf, perf/profile, fabric, internal/shm, internal/tunables, mpi/internal/bootstrap, mpi/internal/clocksync,
	mpi/internal/coll, mpi/internal/datatype, mpi/internal/proto, mpi/internal/reduction, mpi/internal/topology < mpi/internal/core;

# Layer 5: the API of programs.
attrs, perf, mpi/internal/bootstrap, mpi/internal/core, mpi/internal/datatype, mpi/internal/proto, mpi/internal/reduction < mpi;
fabric, fabric/mem, mpi/simulate < mpi/internal/virtual;
hw, perf, fabric, fabric/mem, fabric/auto, mpi/internal/bootstrap, mpi/internal/clocksync, mpi/internal/proto,
	mpi/internal/virtual, mpi/simulate, mpi < mpi/mpitest;
fabric/auto, internal/transports, internal/tunables, mpi/internal/protocols, mpi/internal/wire, mpi/internal/coll, perf
	< mpi/explain;
mpi/internal/coll, mpi/internal/datatype, mpi/internal/reduction < mpi/simulate;

# Layer 6: programs.
internal/ticks, perf, mpi < bench;
perf < cmd/ibrun/internal/benchcmd;
mpi < examples/*;
NONE < docs, docs/dashboards, internal/clustertest;          # tests only
hw, verbs < examples/pingpong;
internal/ticks, internal/pollyield, verbs < bench/perftest;
NONE < bench/sockets;
internal/printable, bench/perftest, bench/sockets < internal/benchreference < bench/reference, cmd/ibrun/internal/benchcmd;
mpi < bench/startup;
internal/admission, internal/auth, internal/encrypt, internal/tcpflow, internal/tunables < cmd/ibrun/internal/control;
hw < cmd/ibrun/internal/placement;
internal/pmi, cmd/ibrun/internal/placement < cmd/ibrun/internal/allocation;
internal/pmi < cmd/ibrun/internal/launch;
cmd/ibrun/internal/allocation < cmd/ibrun/internal/cli, cmd/ibrun/internal/launch, cmd/ibrun/internal/launch/*;
hw, perf, internal/tunables < cmd/ibrun/internal/report;
internal/transports, cmd/ibrun/internal/cli, cmd/ibrun/internal/allocation < cmd/ibrun/internal/completion;
internal/transports < cmd/ibrun/internal/cli, cmd/ibrun/internal/launch, cmd/ibrun/internal/benchcmd, cmd/ibrun/internal/explain,
	cmd/ibrun/internal/doctor;
internal/auth < cmd/ibrun/internal/cli;
NONE < cmd/ibrun/internal/manual < cmd/ibrun/internal/cli, cmd/ibrun/internal/completion, cmd/ibrun/internal/inspect,
	cmd/ibrun/internal/benchcmd, cmd/ibrun/internal/explain, cmd/ibrun/internal/softroce, cmd/ibrun/internal/topo,
	cmd/ibrun/internal/doctor;
NONE < cmd/ibrun/internal/cli/foreign < cmd/ibrun/internal/cli;
internal/tunables < cmd/ibrun/internal/cli, cmd/ibrun/internal/benchcmd, cmd/ibrun/internal/launch,
	cmd/ibrun/internal/launch/coordinator;
cmd/ibrun/internal/placement, cmd/ibrun/internal/report < cmd/ibrun/internal/cli;
internal/admission, perf, perf/prom < cmd/ibrun/internal/exporter;
hw, perf, perf/profile < cmd/ibrun/internal/tracemerge;
NONE < cmd/ibrun/internal/tracemerge/tracetest;
NONE < cmd/ibrun/internal/inputfile < cmd/ibrun/internal/placement, cmd/ibrun/internal/allocation, cmd/ibrun/internal/cli/foreign;
NONE < cmd/ibrun/internal/outfile < cmd/ibrun/internal/report, cmd/ibrun/internal/exporter, cmd/ibrun/internal/launch/monitor;
internal/printable < cmd/ibrun/internal/report, cmd/ibrun/internal/inspect, cmd/ibrun/internal/launch;
internal/printable < cmd/ibrun, cmd/ibrun/internal/benchcmd, cmd/ibrun/internal/doctor, cmd/ibrun/internal/explain;
internal/printable < cmd/ibrun/internal/topo;
internal/printable < cmd/ibrun/internal/tracemerge, cmd/ibrun/internal/launch/console, cmd/ibrun/internal/launch/coordinator;
hw, perf, perf/jobs, internal/jobsocket < cmd/ibrun/internal/inspect;
perf/jobs < cmd/ibrun/internal/launch/protocol, cmd/ibrun/internal/launch/monitor;
cmd/ibrun/internal/launch/exitcode, cmd/ibrun/internal/launch/proctree < cmd/ibrun/internal/launch/watcher;
cmd/ibrun/internal/launch/watcher < cmd/ibrun/internal/launch/coordinator;
internal/buildinfo, cmd/ibrun/internal/launch/exitcode, cmd/ibrun/internal/launch/protocol, cmd/ibrun/internal/launch/watcher <
  cmd/ibrun/internal/launch/remote;
cmd/ibrun/internal/launch/remote < cmd/ibrun/internal/launch/coordinator;
internal/auth, internal/buildinfo, cmd/ibrun/internal/control < cmd/ibrun/internal/launch;
NONE < internal/cgroup, cmd/ibrun/internal/launch/exitcode, cmd/ibrun/internal/launch/outbox;
internal/printable < cmd/ibrun/internal/launch/message < cmd/ibrun/internal/launch/console, cmd/ibrun/internal/launch/protocol,
  cmd/ibrun/internal/launch/remote, cmd/ibrun/internal/launch/coordinator;
internal/cgroup < cmd/ibrun/internal/launch/proctree, cmd/ibrun/internal/launch, cmd/ibrun/internal/topo;
hw, cmd/ibrun/internal/launch/exitcode, cmd/ibrun/internal/launch/outbox, cmd/ibrun/internal/launch/proctree <
  cmd/ibrun/internal/launch/console;
cmd/ibrun/internal/launch/outbox < cmd/ibrun/internal/launch/agent, cmd/ibrun/internal/launch/coordinator;
cmd/ibrun/internal/launch/console, cmd/ibrun/internal/launch/protocol < cmd/ibrun/internal/launch/output;
cmd/ibrun/internal/launch/output < cmd/ibrun/internal/launch/agent, cmd/ibrun/internal/launch/coordinator;
perf, perf/profile, internal/shm, internal/ranklink < cmd/ibrun/internal/launch/perfmem;
internal/auth, internal/pmi, internal/ranklink < cmd/ibrun/internal/launch/protocol;
cmd/ibrun/internal/report < cmd/ibrun/internal/launch/protocol;
cmd/ibrun/internal/launch/exitcode, cmd/ibrun/internal/launch/proctree, cmd/ibrun/internal/launch/console <
  cmd/ibrun/internal/launch/agent;
cmd/ibrun/internal/launch/exitcode, cmd/ibrun/internal/launch/proctree, cmd/ibrun/internal/launch/console <
  cmd/ibrun/internal/launch/monitor;
cmd/ibrun/internal/launch/exitcode, cmd/ibrun/internal/launch/proctree, cmd/ibrun/internal/launch/console <
  cmd/ibrun/internal/launch/coordinator;
cmd/ibrun/internal/launch/perfmem, cmd/ibrun/internal/launch/protocol < cmd/ibrun/internal/launch/agent;
cmd/ibrun/internal/launch/perfmem, cmd/ibrun/internal/launch/protocol < cmd/ibrun/internal/launch/monitor;
cmd/ibrun/internal/launch/perfmem, cmd/ibrun/internal/launch/protocol < cmd/ibrun/internal/launch/coordinator;
hw, internal/pmi, internal/ranklink, internal/wakesock < cmd/ibrun/internal/launch/agent;
hw, perf, perf/profile, perf/prom, internal/buildinfo < cmd/ibrun/internal/launch/monitor;
cmd/ibrun/internal/exporter, cmd/ibrun/internal/inspect, cmd/ibrun/internal/report, cmd/ibrun/internal/tracemerge <
  cmd/ibrun/internal/launch/monitor;
hw, internal/auth, internal/pmi, cmd/ibrun/internal/control, cmd/ibrun/internal/placement < cmd/ibrun/internal/launch/coordinator;
internal/buildinfo, cmd/ibrun/internal/launch/monitor, cmd/ibrun/internal/report, cmd/ibrun/internal/tracemerge <
  cmd/ibrun/internal/launch/coordinator;
hw, internal/ranklink, cmd/ibrun/internal/cli, cmd/ibrun/internal/exporter, cmd/ibrun/internal/placement,
  cmd/ibrun/internal/launch/* <
  cmd/ibrun/internal/launch;
internal/buildinfo, cmd/ibrun/internal/cli, cmd/ibrun/internal/launch, mpi, mpi/explain, mpi/simulate, bench, bench/*, hw, verbs,
  cmd/ibrun/internal/outfile < cmd/ibrun/internal/benchcmd;
cmd/ibrun/internal/cli, bench, mpi/explain < cmd/ibrun/internal/explain;
cmd/ibrun/internal/cli, cmd/ibrun/internal/launch, hw, soft-roce/link < cmd/ibrun/internal/softroce;
hw, cmd/ibrun/internal/placement < cmd/ibrun/internal/topo;
hw, verbs, internal/tunables, mpi/explain, cmd/ibrun/internal/explain, cmd/ibrun/internal/outfile < cmd/ibrun/internal/doctor;
hw, perf, perf/prom, internal/auth, internal/buildinfo, cmd/ibrun/internal/* < cmd/ibrun;

# Packages that must not be imported, neither directly nor through others.
# The launcher starts any program, not only MPI programs.
mpi, mpi/*, fabric, fabric/* !< cmd/ibrun/internal/launch, cmd/ibrun/internal/launch/*;
fabric/* !< fabric;                                          # only fabric/auto knows the transports
perf/prom !< mpi, bench, examples/*, fabric/*;               # an MPI program does not link the exporter
cmd/*, examples/* !< mpi, fabric, verbs, bench;
cmd/ibrun/internal/cli !< cmd/ibrun/internal/launch/*;       # cmd/ibrun/internal/launch converts the command line
`

// policy is the parsed form of layers.
type policy struct {
	allowed   map[string][]string // pattern of importing packages -> patterns that they may import
	forbidden []prohibition
}

// prohibition says that the packages of from must not import those of to, neither directly nor through others.
type prohibition struct{ from, to []string }

func parsePolicy(text string) policy {
	p := policy{allowed: map[string][]string{}}
	for stmt := range strings.SplitSeq(strings.Join(slices.Collect(lines(text)), " "), ";") {
		if left, right, ok := strings.Cut(stmt, "!<"); ok {
			p.forbidden = append(p.forbidden, prohibition{from: splitNames(right), to: splitNames(left)})
			continue
		}
		var below []string
		for list := range strings.SplitSeq(stmt, "<") {
			for _, n := range splitNames(list) {
				p.allowed[n] = append(p.allowed[n], below...)
			}
			below = append(below, splitNames(list)...)
		}
	}
	return p
}

func splitNames(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' })
}

// matches reports whether a pattern of the policy covers the package in dir.
func matches(pattern, dir string) bool {
	if above, ok := strings.CutSuffix(pattern, "/*"); ok {
		return strings.HasPrefix(dir, above+"/")
	}
	return pattern == dir
}

func matchesAny(patterns []string, dir string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, dir) })
}

func checkLayers(t *tree, text string) []violation {
	pol := parsePolicy(text)
	var vs []violation
	for _, p := range t.pkgs {
		may, known := pol.mayImport(p.dir)
		if !known {
			vs = append(vs, violation{pos: p.dir, problem: "this package is in no layer",
				fix: "choose its layer and name it in internal/archtest/layers_test.go"})
			continue
		}
		for _, f := range p.sources() {
			for im, imported := range f.imports {
				dir, ok := moduleDir(imported)
				if ok && !matchesAny(may, dir) {
					vs = append(vs, violation{pos: t.pos(im), problem: fmt.Sprintf("%s imports %s, which is not below it", p.dir, dir),
						fix: "reverse the dependency, or declare an interface here that the package above implements"})
				}
			}
		}
	}
	for _, f := range pol.forbidden {
		vs = append(vs, t.checkProhibition(f)...)
	}
	return vs
}

// checkPolicyNames reports names in the policy that match no package, which happens when a package is removed or renamed.
func checkPolicyNames(t *tree, text string) []violation {
	pol := parsePolicy(text)
	patterns := slices.Collect(maps.Keys(pol.allowed))
	for _, f := range pol.forbidden {
		patterns = slices.Concat(patterns, f.from, f.to)
	}
	slices.Sort(patterns)
	var vs []violation
	for _, pattern := range slices.Compact(patterns) {
		if pattern != "NONE" && !slices.ContainsFunc(t.pkgs, func(p *pkg) bool { return matches(pattern, p.dir) }) {
			vs = append(vs, violation{pos: "internal/archtest/layers_test.go", problem: "there is no package " + pattern,
				fix: "remove the name from the policy, or rename it there as the package was renamed"})
		}
	}
	return vs
}

// mayImport returns the patterns that the package in dir may import. known is false if the policy does not name the package.
func (p policy) mayImport(dir string) (may []string, known bool) {
	for pattern, below := range p.allowed {
		if matches(pattern, dir) {
			may, known = append(may, below...), true
		}
	}
	return may, known
}

// checkProhibition reports, for each package of from, the shortest chain of imports to a package of to.
func (t *tree) checkProhibition(f prohibition) []violation {
	var vs []violation
	for _, p := range t.pkgs {
		if !matchesAny(f.from, p.dir) {
			continue
		}
		importer := map[string]string{p.dir: ""} // package -> the package that imports it, on the shortest chain
		for queue := []string{p.dir}; len(queue) > 0; queue = queue[1:] {
			dir := queue[0]
			if dir != p.dir && matchesAny(f.to, dir) {
				vs = append(vs, violation{pos: p.dir, problem: "must not depend on " + dir + ", but does: " + importChain(importer, dir),
					fix: "remove one of these imports"})
				break
			}
			for _, next := range t.moduleImports(dir) {
				if _, seen := importer[next]; !seen {
					importer[next] = dir
					queue = append(queue, next)
				}
			}
		}
	}
	return vs
}

func importChain(importer map[string]string, to string) string {
	chain := to
	for dir := importer[to]; dir != ""; dir = importer[dir] {
		chain = dir + " -> " + chain
	}
	return chain
}

// moduleImports returns the packages of this module that the package in dir imports outside its tests.
func (t *tree) moduleImports(dir string) []string {
	p := t.find(dir)
	if p == nil {
		return nil
	}
	var dirs []string
	for _, f := range p.sources() {
		for _, imported := range f.imports {
			if d, ok := moduleDir(imported); ok {
				dirs = append(dirs, d)
			}
		}
	}
	return dirs
}

// moduleDir returns the folder of an import path. ok is false if the path is not in this module.
func moduleDir(imported string) (dir string, ok bool) {
	rest, ok := strings.CutPrefix(imported, module)
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	return path.Clean(strings.TrimPrefix(rest, "/")), true
}
