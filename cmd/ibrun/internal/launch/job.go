package launch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/allocation"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/exporter"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/coordinator"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/monitor"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/placement"
	"github.com/ibrun/ibrun/internal/tunables"
)

// job is the job of a command line, as this node runs it, in groups of what one part of ibrun
// needs. newJob makes it. A step that finds more about the job, for instance the hosts, returns
// another one.
type job struct {
	programs []cli.Program // Ranks is 0 if the machine decides how many ranks there are
	notes    []string      // about flags that have no effect, for the user
	dryRun   bool
	logJSON  bool
	hosts    allocation.Options // Terminal is not set
	place    placeSettings
	task     taskSettings
	debug    cli.Debug
	start    cli.Start
	// join has the settings that are not among those of the other groups: see joinSettings.
	join coordinator.JoinSettings
	// run lacks the discovery file, whose name depends on the host: see runSettings.
	run       coordinator.RunSettings
	discovery string // the pattern of its name, in which %h is the host; empty: there is none
	// graceGiven means that the user has set run.Grace.
	graceGiven bool
}

// placeSettings decide which rank runs where.
type placeSettings struct {
	// name is the name of this node. Empty: the host's.
	name string
	// node is the number of this node, from 0, and nodes is how many nodes the job has. nodes 0 or
	// 1: the job runs on this node only.
	node, nodes int
	// assignment maps the ranks to nodes, if the job runs on hosts that ibrun has found. Nil:
	// policy decides.
	assignment *allocation.Assignment
	policy     placement.Policy
	psets      []cli.Pset
	// transports lists those that the ranks may use. Empty: the ranks choose.
	transports string
}

// newJob converts a command line, and resolves the defaults that depend on nothing.
func newJob(o *cli.Options) *job {
	j := &job{programs: slices.Clone(o.Programs), notes: o.Notes, dryRun: o.DryRun, logJSON: o.LogJSON,
		hosts: allocation.Options{Hosts: o.Hosts.List, Files: o.Hosts.Files, PerNode: o.Policy.PerNode, Offset: o.Policy.Offset,
			Packed: o.Policy.Packed, Manual: o.Node.Count > 0, Command: o.Programs[0].Args},
		place: placeSettings{name: o.Node.Name, node: o.Node.Number, nodes: o.Node.Count, policy: o.Policy, psets: o.Psets,
			transports: o.Network.Transports},
		task: taskSettings{network: o.Network, output: o.Output, trace: o.Recordings.Trace != "",
			profile: o.Recordings.Profile != "", verbose: o.Verbose},
		debug: o.Debug, start: o.Start,
		join: coordinator.JoinSettings{Rendezvous: o.Node.Rendezvous, SecretFile: o.Node.SecretFile, Encrypt: o.Network.Encrypt,
			Timeout:   cmp.Or(o.Node.JoinTimeout, coordinator.DefaultJoinTimeout),
			Heartbeat: cmp.Or(o.Node.Heartbeat, tunables.DefaultHeartbeat), Check: o.Check},
		run: coordinator.RunSettings{Timeout: o.Limits.Timeout, Grace: o.Limits.Grace, FailureGrace: o.Limits.FailureGrace,
			Report:     coordinator.ReportSettings{Enabled: o.Report.Enabled, Files: o.Report.Files, Bare: o.Report.Bare},
			Recordings: monitor.RecordingFiles(o.Recordings), Verbose: o.Verbose},
		discovery: o.Metrics.DiscoveryFile, graceGiven: o.Limits.GraceGiven}
	j.run.Monitor = monitor.Settings{DeadlockReport: o.DeadlockReport, EndDeadlocks: o.Check, Heartbeat: j.join.Heartbeat,
		Metrics: exporter.Options{Address: o.Metrics.Address, Hosts: o.Metrics.Hosts, Linger: o.Metrics.Linger}}
	for i, p := range o.Programs {
		if i > 0 {
			j.run.Monitor.Command = append(j.run.Monitor.Command, ":")
		}
		j.run.Monitor.Command = append(j.run.Monitor.Command, p.Args...)
		j.run.Report.Commands = append(j.run.Report.Commands, p.Args)
	}
	return j
}

// assigned returns the job as a node runs it whose ranks are assigned so.
func (j *job) assigned(s *allocation.Assignment, node int) (*job, error) {
	if len(s.Ranks) != len(j.programs) || node < 0 || node >= s.Nodes() {
		return nil, fmt.Errorf("node %d of %d, with %d programs instead of %d", node, s.Nodes(), len(s.Ranks), len(j.programs))
	}
	at := *j
	at.programs = slices.Clone(j.programs)
	for i, n := range s.Ranks {
		at.programs[i].Ranks = n
	}
	at.place.assignment, at.place.node, at.place.nodes = s, node, s.Nodes()
	p := &at.place.policy
	if p.Packed = false; s.Host(node) != nil {
		h := s.Host(node)
		p.Offset, p.Packed = h.Skip, s.Packed
		if s.Packed && h.Slots > 0 {
			p.NodeSlots = h.Skip + h.Slots
		}
	}
	return &at, nil
}

// withGrace returns the job with another time for ranks that were asked to end.
func (j *job) withGrace(grace time.Duration) *job {
	other := *j // a goroutine that builds the programs may read j
	other.run.Grace = grace
	return &other
}

// joinSettings returns what this node, which has that name, needs to join the others.
func (j *job) joinSettings(name string) *coordinator.JoinSettings {
	set := j.join
	set.Name, set.Node, set.Nodes = name, j.place.node, j.place.nodes
	set.Command.Mapping = j.place.policy.NodeMapping()
	for _, p := range j.programs {
		set.Command.Programs = append(set.Command.Programs, coordinator.Program{Ranks: p.Ranks, Args: p.Args})
	}
	for _, p := range j.place.psets {
		set.Command.Psets = append(set.Command.Psets, coordinator.Pset{Name: p.Name, Ranks: p.Ranks.String()})
	}
	set.Report, set.Verbose = j.run.Report.Enabled, j.run.Verbose
	set.Grace, set.FailureGrace = j.run.Grace, j.run.FailureGrace
	return &set
}

// runSettings returns what this node, which has that name, needs to run the job.
func (j *job) runSettings(name string) *coordinator.RunSettings {
	set := j.run
	set.Monitor.Metrics.DiscoveryFile = discoveryFile(j.discovery, name)
	return &set
}

// discoveryFile returns the name of the discovery file of a host, or "" if there is none.
func discoveryFile(pattern, host string) string {
	return strings.NewReplacer("%h", host, "%%", "%").Replace(pattern)
}
