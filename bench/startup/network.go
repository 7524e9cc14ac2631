package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// network is a set of network namespaces that are connected by a bridge. Each is a node.
type network struct {
	bridge string
	hosts  []netip.Addr // by node
	script string       // starts a command on a host as rsh does: SCRIPT HOST COMMAND
	secret string       // file with the secret of the jobs
	made   []string     // namespaces
}

// name returns the name of the namespace of a node.
func (n *network) name(node int) string { return fmt.Sprintf("%s-%d", n.bridge, node) }

// newNetwork makes the namespaces. It returns a network to be removed, also with an error.
func (s *settings) newNetwork() (*network, error) {
	n := &network{bridge: fmt.Sprintf("ib%d", os.Getpid()), script: filepath.Join(s.dir, "rsh"),
		secret: filepath.Join(s.dir, "secret")}
	if err := os.WriteFile(n.secret, []byte(rand.Text()+rand.Text()), 0o600); err != nil {
		return n, err
	}
	// The last number of the address is that of the node and 1.
	script := fmt.Sprintf("#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\nnode=$((${1##*.} - 1))\nshift\n"+
		"exec ip netns exec %s-$node sh -c \"$*\"\n", n.bridge)
	if err := os.WriteFile(n.script, []byte(script), 0o700); err != nil {
		return n, err
	}
	if err := ip("link add " + n.bridge + " type bridge"); err != nil {
		return n, err
	}
	if err := ip("link set " + n.bridge + " up"); err != nil {
		return n, err
	}
	for k, host := 0, netip.MustParseAddr("10.231.77.1"); k < s.nodes; k, host = k+1, host.Next() {
		name := n.name(k)
		if err := ip("netns add " + name); err != nil {
			return n, err
		}
		n.made, n.hosts = append(n.made, name), append(n.hosts, host)
		link := fmt.Sprintf("%sv%d", n.bridge, k)
		for _, args := range []string{
			"link add " + link + " type veth peer name eth0 netns " + name,
			"link set " + link + " master " + n.bridge + " up",
			"-n " + name + " addr add " + host.String() + "/24 dev eth0",
			"-n " + name + " link set eth0 up",
			"-n " + name + " link set lo up",
		} {
			if err := ip(args); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// remove deletes the namespaces, and with them the links into them.
func (n *network) remove() error {
	if n == nil {
		return nil
	}
	var errs []error
	for _, name := range n.made {
		errs = append(errs, ip("netns del "+name))
	}
	return errors.Join(append(errs, ip("link del "+n.bridge))...)
}

// ip runs the command of that name.
func ip(args string) error {
	if text, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", args, err, text)
	}
	return nil
}

// on returns a command on a node.
func (n *network) on(node int, args ...string) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", n.name(node)}, args...)...)
}

// hydraOnNodes returns the command of hydra, on node 0, that runs a program on all nodes.
func (s *settings) hydraOnNodes(launcher string, n *network, program []string) *exec.Cmd {
	var hosts []string
	for _, host := range n.hosts {
		hosts = append(hosts, host.String())
	}
	return n.on(0, append([]string{launcher, "-launcher", "ssh", "-launcher-exec", n.script, "-localhost", hosts[0],
		"-hosts", strings.Join(hosts, ","), "-ppn", fmt.Sprint((s.ranks + s.nodes - 1) / s.nodes), "-n", fmt.Sprint(s.ranks)},
		program...)...)
}

// ibrunOnNodes returns the commands of ibrun that run a program on all nodes: one on node 0, or one on each node, as a user types
// them.
func (s *settings) ibrunOnNodes(launcher string, n *network, program []string) (list []*exec.Cmd, err error) {
	ppn := (s.ranks + s.nodes - 1) / s.nodes
	if s.launchAgent {
		var hosts []string
		for _, host := range n.hosts {
			hosts = append(hosts, fmt.Sprintf("%v:%d", host, ppn))
		}
		args := []string{launcher, "--hosts", strings.Join(hosts, ","), "--launch-agent", n.script, "-n", fmt.Sprint(s.ranks)}
		return []*exec.Cmd{n.on(0, append(args, program...)...)}, nil
	}
	address := n.hosts[0].String() + ":7771"
	for k, host := range n.hosts {
		args := []string{launcher, "--rendezvous", address, "--node", fmt.Sprintf("%d/%d", k, s.nodes), "--secret-file", n.secret,
			"-n", fmt.Sprint(s.ranks)}
		c := n.on(0, append(args, program...)...)
		if k > 0 {
			c = exec.Command(n.script, append([]string{host.String()}, append(args, program...)...)...)
		}
		list = append(list, c)
	}
	return list, nil
}
