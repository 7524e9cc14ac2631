package cli

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// nodeFlags are those of a job on several nodes, on each of which ibrun is started.
func (o *Options) nodeFlags() []flag {
	return []flag{
		{[]string{"rendezvous"}, "HOST:PORT", "where node 0 of several listens", o.setRendezvous},
		{[]string{"node"}, "K/N", "this is node K of N, from 0; -n is the number of ranks on all nodes together", o.setNode},
		{[]string{"node-name"}, "NAME", "the name of this node; without it the host's", func(s string) error {
			o.NodeName = s
			if len(s) > 255 {
				return errors.New("a name has at most 255 bytes")
			}
			if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' || r == '=' }) {
				return errors.New("a name is letters and digits without spaces")
			}
			return nil
		}},
		{[]string{"secret-file"}, "FILE", "a file with the same secret on all nodes, 32 bytes or more", func(s string) error {
			o.SecretFile = s
			return nil
		}},
		{[]string{"join-timeout"}, "TIME", "how long the nodes wait for each other; without it 60 seconds", func(s string) (err error) {
			o.JoinTimeout, err = duration(s)
			return err
		}},
	}
}

func (o *Options) setRendezvous(s string) error {
	o.Rendezvous = s
	_, port, err := net.SplitHostPort(s)
	if n, errPort := strconv.Atoi(port); err != nil || errPort != nil || n < 1 || n > 65535 {
		return errors.New("want a host and a port from 1 to 65535, as in node0:7777")
	}
	return nil
}

func (o *Options) setNode(s string) error {
	k, n, ok := strings.Cut(s, "/")
	node, errNode := strconv.Atoi(k)
	nodes, errNodes := strconv.Atoi(n)
	if !ok || errNode != nil || errNodes != nil || node < 0 || node >= nodes || nodes > MaxRanks {
		return errors.New("nodes are counted from 0: the second of three is 1/3")
	}
	o.Node, o.Nodes = node, nodes
	return nil
}

// checkNodes tells what a job on several nodes lacks.
func (o *Options) checkNodes() error {
	if o.Nodes <= 1 {
		if o.Rendezvous != "" && o.Nodes == 0 {
			return errors.New("--rendezvous is for several nodes: --node K/N says which one this is")
		}
		return nil
	}
	if each := o.Policy.PerNode; each > 0 && len(o.Programs) == 1 && o.Programs[0].Ranks == 0 {
		o.Programs[0].Ranks = min(each*o.Nodes, MaxRanks)
	}
	ranks := 0
	for _, p := range o.Programs {
		if p.Ranks == 0 {
			return errors.New("on several nodes -n is needed: the number of ranks on all of them together; or --ppn: that on each")
		}
		ranks += p.Ranks
	}
	switch {
	case ranks < o.Nodes:
		return fmt.Errorf("%d ranks are fewer than %d nodes", ranks, o.Nodes)
	case o.Rendezvous == "":
		return errors.New("several nodes need --rendezvous HOST:PORT, where node 0 listens")
	case o.SecretFile == "" && !o.DryRun:
		return errors.New("several nodes need --secret-file FILE: " +
			"make it on one node and copy it to the others: (umask 077; head -c 32 /dev/urandom >FILE)")
	}
	return nil
}
