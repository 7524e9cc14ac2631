package bootstrap

import (
	"os"

	"github.com/ibrun/ibrun/hw"
)

// Machine returns the topology of this machine, with the models of its GPUs, and the PUs on which any thread of this process may
// run now.
func Machine() (*hw.Topology, []int, error) {
	top, err := hw.Local()
	if err != nil {
		return nil, nil, err
	}
	top.LookUpModels(os.DirFS("/"))
	allowed, err := hw.ProcessAffinity()
	return top, allowed, err
}

// HostName returns the name of this machine, or localhost if it has none.
func HostName() string {
	if name, err := os.Hostname(); err == nil && name != "" {
		return name
	}
	return "localhost"
}
