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

// findPrograms finds the programs to start.
func findPrograms(o *cli.Options, env []string) (programs []program, err error) {
	for _, want := range o.Programs {
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

// buildAll builds each program that is Go source, and sets its path to the result. A signal that interrupts ibrun interrupts
// the build.
func buildAll(w startedWatcher, programs []program, o *cli.Options, s console.Streams) error {
	ctx, stop := console.Interruptible("the build")
	defer stop()
	debug := len(o.Delve)+len(o.GDB) > 0
	for i, p := range programs {
		if !p.isGo {
			continue
		}
		path, err := build(ctx, w, p.path, debug, s.Err)
		if err != nil {
			return err
		}
		if o.Verbose {
			s.Info("a program was built", console.Attrs{File: path, Text: fmt.Sprintf("built %s as %s", p.path, path)})
		}
		programs[i].path = path
	}
	return nil
}

// makeTask returns the task of this node's agent.
func makeTask(m *coordinator.Cluster, p *plan, o *cli.Options, programs []program, env []string) (*protocol.Task, error) {
	t := &protocol.Task{JobID: m.Job.JobID, Secret: m.Secret, Host: p.names[p.node], Node: p.node, Nodes: len(p.names),
		Mapping: p.Mapping(), Size: len(p.programs), Psets: p.psets, Env: env, Label: o.Label}
	if o.Assignment != nil {
		t.FirstNode = o.Assignment.FirstNode()
	}
	t.Trace, t.Profile = o.Trace != "", o.Profile != ""
	if t.Output = o.Output; o.Output != "" && !filepath.IsAbs(o.Output) {
		here, err := absolute(".")
		if err != nil {
			return nil, err
		}
		t.Output = filepath.Join(strings.ReplaceAll(here, "%", "%%"), o.Output)
	}
	t.Env = slices.Clip(t.Env)
	if cli.Lookup(env)("MASTER_PORT") == "" { // where the ranks of torchrun programs connect
		address, port := m.MasterOf(p.NodeOf[0])
		t.Env = append(t.Env, "MASTER_ADDR="+address, fmt.Sprintf("MASTER_PORT=%d", port))
	}
	if o.Verbose { // ranks print which transports they use
		t.Env = append(t.Env, "IBRUN_VERBOSE=1")
	}
	t.Env = append(t.Env, tunables.Heartbeat+"="+m.Job.Heartbeat.String()) // of node 0, also if this node has another
	if o.Transport != "" {
		t.Env = append(t.Env, tunables.Transports+"="+o.Transport)
	}
	if o.Encrypt {
		t.Env = append(t.Env, tunables.Encrypt+"=1")
	} else if cli.Lookup(env)(tunables.Encrypt) != "" { // the command line says otherwise
		t.Env = append(t.Env, tunables.Encrypt+"=0")
	}
	if o.Checksum != "" {
		t.Env = append(t.Env, tunables.Checksum+"="+o.Checksum)
	}
	if o.Interfaces != "" {
		t.Env = append(t.Env, tunables.TCPInterfaces+"="+o.Interfaces)
	}
	if m.Job.Check {
		t.Env = append(t.Env, "IBRUN_CHECK=1")
	} else if cli.Lookup(env)("IBRUN_CHECK") != "" { // node 0 decides for all nodes
		t.Env = append(t.Env, "IBRUN_CHECK=0")
	}
	for _, want := range o.Programs {
		t.Programs = append(t.Programs, protocol.ProgramTask{Dir: protocol.Text(want.Dir), Env: want.Env})
	}
	for _, program := range p.programs {
		t.Programs[program].Ranks++
	}
	for i := range p.localRanks() {
		r := p.rankTask(i, o)
		r.Path, r.Args = protocol.Text(programs[r.Program].path), o.Programs[r.Program].Args
		if programs[r.Program].isGo {
			r.Args = append([]string{string(r.Path)}, r.Args[1:]...)
		}
		t.Ranks = append(t.Ranks, r)
	}
	return t, nil
}

// rankTask returns the part of a rank's task that follows from its placement. i is an index into the ranks of this node.
func (p *plan) rankTask(i int, o *cli.Options) protocol.RankTask {
	place, m := p.placement.Ranks[i], p.placement.Machines[0]
	r := protocol.RankTask{Rank: place.Rank, Program: p.programs[place.Rank], Crowded: p.oversubscribed[i]}
	pus := m.Allowed
	if place.Bound {
		pus = place.PUs
	}
	r.Home.NUMA, r.Home.Rails = m.Top.LocalityOf(pus)
	if place.Bound {
		r.PUs, r.Memory = place.PUs, lessThanAll(place.Memory, m.Top)
	}
	if place.NIC.Name != "" {
		r.Devices = []string{place.NIC.String()}
	}
	if o.Policy.Map == placement.Device {
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
