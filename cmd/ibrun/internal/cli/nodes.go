package cli

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/allocation"
	"github.com/ibrun/ibrun/internal/auth"
	"github.com/ibrun/ibrun/internal/tunables"
)

// hostFlags returns the flags that name the hosts of a job.
func (o *Options) hostFlags() []flag {
	return []flag{
		{[]string{"hosts"}, "LIST", "run on these hosts, with so many ranks each: a:2,b:4,me@c:2; localhost is this host only",
			listFlag(&o.Hosts.List, func(s string) error {
				_, err := allocation.ParseHosts(s)
				return err
			})},
		{[]string{"hostfile"}, "FILE", "run on the hosts in FILE, in the syntax of Open MPI or MPICH: host slots=4, host:4",
			func(s string) error {
				var name string
				err := fileFlag(&name)(s)
				o.Hosts.Files = append(o.Hosts.Files, name)
				return err
			}},
		{[]string{"launch-agent"}, "CMD", "start ibrun on other hosts by CMD HOST COMMAND... (default: srun in a Slurm job, else ssh)",
			func(s string) (err error) {
				o.Start.Agent, err = splitCommand(s)
				return err
			}},
		{[]string{"copy"}, "", "copy the programs to hosts that have not the same file; ibrun always copies what it has built itself",
			boolFlag(&o.Start.Copy)},
	}
}

// nodeFlags returns the flags of a job on several nodes. The user starts ibrun on each of them.
func (o *Options) nodeFlags() []flag {
	return []flag{
		{[]string{"rendezvous"}, "HOST:PORT", "address where node 0 listens for the other nodes", o.setRendezvous},
		{[]string{"node"}, "K/N", "this is node K (from 0) of N; -n then counts the ranks on all nodes", o.setNode},
		{[]string{"node-name"}, "NAME", "name of this node (default: the name of the host)", func(s string) error {
			o.Node.Name = s
			if len(s) > 255 {
				return errors.New("a node name has at most 255 bytes")
			}
			if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' || r == '=' }) {
				return errors.New("a node name is printable ASCII without spaces, slashes and equals signs")
			}
			return nil
		}},
		{[]string{"secret-file"}, "FILE", "file with a secret, the same on all nodes; ibrun secret FILE makes one",
			stringFlag(&o.Node.SecretFile)},
		{[]string{"join-timeout"}, "TIME", "how long the nodes wait for each other (default: 60 seconds)",
			func(s string) (err error) {
				o.Node.JoinTimeout, err = parseDuration(s)
				return err
			}},
		{[]string{"heartbeat"}, "TIME", "how long a node may be silent before it is lost (default: 15 seconds); node 0 decides",
			func(s string) (err error) {
				if o.Node.Heartbeat, err = parseDuration(s); err == nil {
					err = tunables.CheckHeartbeat(o.Node.Heartbeat)
				}
				return err
			}},
	}
}

func (o *Options) setRendezvous(s string) error {
	o.Node.Rendezvous = s
	_, port, err := net.SplitHostPort(s)
	if n, errPort := strconv.Atoi(port); err != nil || errPort != nil || n < 1 || n > 65535 {
		return errors.New("want a host and a port from 1 to 65535, such as node0:7777")
	}
	return nil
}

func (o *Options) setNode(s string) error {
	k, n, ok := strings.Cut(s, "/")
	node, errNode := strconv.Atoi(k)
	nodes, errNodes := strconv.Atoi(n)
	if !ok || errNode != nil || errNodes != nil || node < 0 || node >= nodes || nodes > MaxRanks {
		return errors.New("want K/N with K from 0 to N-1: the second of three nodes is 1/3")
	}
	o.Node.Number, o.Node.Count = node, nodes
	return nil
}

// checkNodes checks the flags of a job on several nodes, and computes the number of ranks from --ppn if -n is missing.
func (o *Options) checkNodes() error {
	switch {
	case o.Hosts.List != "" && o.Hosts.Files != nil:
		return errors.New("--hosts and --hostfile both name the hosts of the job: leave one out")
	case o.Node.Count > 0 && (o.Hosts.List != "" || o.Hosts.Files != nil):
		return errors.New("--node means that you start ibrun on each node: leave out --hosts and --hostfile, or --node")
	}
	if o.Node.Count <= 1 {
		if o.Node.Rendezvous != "" && o.Node.Count == 0 {
			return errors.New("--rendezvous requires --node K/N, the number of this node and the number of all nodes")
		}
		return nil
	}
	if each := o.Policy.PerNode; each > 0 && len(o.Programs) == 1 && o.Programs[0].Ranks == 0 {
		o.Programs[0].Ranks = min(each*o.Node.Count, MaxRanks)
	}
	ranks := 0
	for _, p := range o.Programs {
		if p.Ranks == 0 {
			return errors.New("a job on several nodes requires -n (ranks on all nodes together) or --ppn (ranks on each node)")
		}
		ranks += p.Ranks
	}
	switch {
	case ranks < o.Node.Count:
		return fmt.Errorf("%d ranks are fewer than %d nodes", ranks, o.Node.Count)
	case o.Node.Rendezvous == "":
		return errors.New("several nodes need --rendezvous HOST:PORT, the address where node 0 listens")
	case o.Node.SecretFile == "" && !o.DryRun:
		return errors.New("several nodes need --secret-file FILE: " + auth.Remedy)
	}
	return nil
}
