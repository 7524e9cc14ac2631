package remote

import (
	"context"
	"net"
	"os/exec"
	"strings"
	"time"
)

// lookupTimeout bounds how long scontrol may take.
const lookupTimeout = 5 * time.Second

// AddressToward returns the address, with port 0, from which this host reaches a host of a Slurm job. DNS may not know the names
// of Slurm's hosts, so their addresses are those that Slurm uses.
func AddressToward(host string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "scontrol", "show", "node", "--oneliner", host).Output(); err == nil {
		if address := field(string(out), "NodeAddr"); address != "" {
			host = address
		}
	}
	c, err := net.Dial("udp", net.JoinHostPort(host, "9")) // sends nothing
	if err != nil {
		return "", err
	}
	defer c.Close()
	local, _, err := net.SplitHostPort(c.LocalAddr().String())
	return net.JoinHostPort(local, "0"), err
}

// field returns the value of NAME=VALUE in the output of scontrol.
func field(text, name string) string {
	for _, word := range strings.Fields(text) {
		if value, ok := strings.CutPrefix(word, name+"="); ok {
			return value
		}
	}
	return ""
}
