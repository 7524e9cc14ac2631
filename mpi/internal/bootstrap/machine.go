package bootstrap

import (
	"os"

	"github.com/ibrun/ibrun/hw"
)

// Machine reads this machine, and which of its PUs any thread of this process may use now.
func Machine() (*hw.Topology, []int, error) {
	top, err := hw.Local()
	if err != nil {
		return nil, nil, err
	}
	allowed, err := hw.ProcessAffinity()
	return top, allowed, err
}

// HostName is the name of this machine, or localhost where it has none.
func HostName() string {
	if name, err := os.Hostname(); err == nil && name != "" {
		return name
	}
	return "localhost"
}
