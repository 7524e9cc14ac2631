package launch

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/coordinator"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/placement"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/tunables"
)

// taskSettings say how the agent of each node runs its ranks.
type taskSettings struct {
	network cli.Network
	output  cli.Output
	// trace and profile make ranks record traces and profiles.
	trace, profile bool
	// verbose makes ranks print which transports they use.
	verbose bool
}

// findPrograms finds the programs to start.
func findPrograms(words []cli.Program, env []string) (programs []program, err error) {
	for _, want := range words {
		found, err := findProgram(want.Args[0], cli.Lookup(env)("PATH"))
		if err != nil {
			return nil, err
		}
		if err := checkDir(want.Dir); err != nil {
			return nil, err
		}
		programs = append(programs, found)
	}
	return programs, nil
}

// checkDir returns an error for a directory that a program cannot run in. An empty name is ibrun's own directory.
func checkDir(dir string) error {
	info, err := os.Stat(cmp.Or(dir, "."))
	if err == nil && !info.IsDir() {
		err = unix.ENOTDIR
	}
	if err == nil {
		err = unix.Access(cmp.Or(dir, "."), unix.X_OK)
	}
	if err != nil && dir != "" {
		return exitcode.Errorf(exitcode.UsageError, "--wdir %s: %w", dir, err)
	}
	return nil
}

// buildAll builds each program of a job that is Go source, and sets its path to the result. A
// signal that interrupts ibrun interrupts the build.
func buildAll(w startedWatcher, programs []program, j *job, s console.Streams) error {
	ctx, stop := console.Interruptible("the build")
	defer stop()
	for i, p := range programs {
		if !p.isGo {
			continue
		}
		path, err := build(ctx, w, p.path, j.debug.Any(), s.Err)
		if err != nil {
			return err
		}
		if j.run.Verbose {
			s.Info("a program was built", console.Attrs{File: path, Text: fmt.Sprintf("built %s as %s", p.path, path)})
		}
		programs[i].path = path
	}
	return nil
}

// makeTask returns the task of this node's agent.
func makeTask(m *coordinator.Cluster, p *plan, j *job, programs []program, env []string) (*protocol.Task, error) {
	set := &j.task
	t := &protocol.Task{JobID: m.Job.JobID, Secret: m.Secret, Host: p.names[p.node], Node: p.node, Nodes: len(p.names),
		Mapping: p.Mapping(), Size: len(p.programs), Psets: p.psets, Env: env, Label: set.output.Label}
	if j.place.assignment != nil {
		t.FirstNode = j.place.assignment.FirstNode()
	}
	t.Trace, t.Profile = set.trace, set.profile
	if t.Output = set.output.Pattern; t.Output != "" && !filepath.IsAbs(t.Output) {
		here, err := absolute(".")
		if err != nil {
			return nil, err
		}
		t.Output = filepath.Join(strings.ReplaceAll(here, "%", "%%"), t.Output)
	}
	t.Env = slices.Clip(t.Env)
	if cli.Lookup(env)("MASTER_PORT") == "" { // where the ranks of torchrun programs connect
		address, port := m.MasterOf(p.NodeOf[0])
		t.Env = append(t.Env, "MASTER_ADDR="+address, fmt.Sprintf("MASTER_PORT=%d", port))
	}
	if set.verbose { // ranks print which transports they use
		t.Env = append(t.Env, "IBRUN_VERBOSE=1")
	}
	// It is that of the coordinator, also if this node has another.
	t.Env = append(t.Env, tunables.Heartbeat+"="+m.Job.Heartbeat.String())
	if set.network.Transports != "" {
		t.Env = append(t.Env, tunables.Transports+"="+set.network.Transports)
	}
	if set.network.Encrypt {
		t.Env = append(t.Env, tunables.Encrypt+"=1")
	} else if cli.Lookup(env)(tunables.Encrypt) != "" { // the command line says otherwise
		t.Env = append(t.Env, tunables.Encrypt+"=0")
	}
	if set.network.Checksum != "" {
		t.Env = append(t.Env, tunables.Checksum+"="+set.network.Checksum)
	}
	if set.network.Interfaces != "" {
		t.Env = append(t.Env, tunables.TCPInterfaces+"="+set.network.Interfaces)
	}
	if m.Job.Check {
		t.Env = append(t.Env, "IBRUN_CHECK=1")
	} else if cli.Lookup(env)("IBRUN_CHECK") != "" { // the coordinator decides for all nodes
		t.Env = append(t.Env, "IBRUN_CHECK=0")
	}
	for _, want := range j.programs {
		t.Programs = append(t.Programs, protocol.ProgramTask{Dir: protocol.Text(want.Dir), Env: want.Env})
	}
	for _, program := range p.programs {
		t.Programs[program].Ranks++
	}
	for i := range p.localRanks() {
		r := p.rankTask(i, j.place.policy.Map)
		r.Path, r.Args = protocol.Text(programs[r.Program].path), j.programs[r.Program].Args
		if programs[r.Program].isGo {
			r.Args = append([]string{string(r.Path)}, r.Args[1:]...)
		}
		t.Ranks = append(t.Ranks, r)
	}
	return t, nil
}

// rankTask returns the part of a rank's task that follows from its placement by objects of that
// level. i is an index into the ranks of this node.
func (p *plan) rankTask(i int, by placement.Level) protocol.RankTask {
	place, m := p.placement.Ranks[i], p.placement.Machines[0]
	r := protocol.RankTask{Rank: place.Rank, Program: p.programs[place.Rank], Oversubscribed: p.oversubscribed[i]}
	pus := m.Allowed
	if place.Bound {
		pus = place.PUs
	}
	r.Locality.NUMA, r.Locality.Rails = m.Top.LocalityOf(pus)
	if place.Bound {
		r.PUs, r.Memory = place.PUs, lessThanAll(place.Memory, m.Top)
	}
	if place.NIC.Name != "" {
		r.Devices = []string{place.NIC.String()}
	}
	if by == placement.Device {
		r.Env = m.Variables(place)
	}
	return r
}

// lessThanAll returns nodes, or nil if they are all NUMA nodes of the machine: then no memory is to be preferred.
func lessThanAll(nodes []int, top *hw.Topology) []int {
	all := map[int]bool{}
	for _, pu := range top.PUs {
		all[pu.Node] = true
	}
	if len(nodes) >= len(all) {
		return nil
	}
	return nodes
}
