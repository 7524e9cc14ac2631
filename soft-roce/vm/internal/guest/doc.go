// Package guest is what runs inside a virtual machine: its first process, the agent that runs programs for the host
// and for the other node, and the command with which a program there asks for that.
//
//	init     loads the modules, mounts the host's files, makes rxe0
//	└── agent     serves the channel to the host
//	    ├── the command, as the host asks
//	    └── what the other node asks for by `vm exec`
//
// All three are the same static program, so an image needs nothing else than it and the modules.
package guest

import (
	"encoding/json"
	"slices"
	"strings"
)

// Config is what a guest has to know. It is in its image, in the file ConfigFile.
type Config struct {
	// Node is the number of this guest, from 0. Addrs has the IPv4 address of each.
	Node  int
	Addrs []string
	// Bin is the directory with vm and ibrun.
	Bin string
	// Keep are directories of the host that stay visible where the guest has a file system of its own.
	Keep []string
}

// Places in the image.
const (
	ConfigFile = "config"
	ModuleDir  = "modules"
	InitFile   = "init"
)

// Names that host and guest agree on.
const (
	// PortName is that of the virtual serial port to the host.
	PortName = "ibrun.vm"
	// MountTag is that of the host's files.
	MountTag = "host"
	// Device and Netdev are the RDMA device of each guest and the network device below it.
	Device = "rxe0"
	Netdev = "eth0"
)

// Variables in the environment of every program in a guest.
const (
	// NodeVariable is the number of its node, NodesVariable how many there are.
	NodeVariable  = "IBRUN_VM_NODE"
	NodesVariable = "IBRUN_VM_NODES"
	// AddrsVariable has the IPv4 addresses of all nodes, with commas between them.
	AddrsVariable = "IBRUN_VM_ADDRS"
	// LiveVariable is "1" where one node is up and "2" where two are: live tests must not be skipped then.
	LiveVariable = "IBRUN_LIVE"
)

// AgentWord is the argument that makes the program the agent.
const AgentWord = "agent"

// Encode returns what goes into ConfigFile.
func (c *Config) Encode() ([]byte, error) { return json.Marshal(c) }

// own are the directories where a guest has a file system of its own, writable and empty at the beginning.
var own = []string{"/tmp", "/run", "/dev/shm"}

// Hidden returns those of the host's directories that a guest would not see unless Config.Keep names them.
func Hidden(dirs []string) []string {
	return slices.DeleteFunc(slices.Clone(dirs), func(dir string) bool {
		return !slices.ContainsFunc(own, func(o string) bool { return strings.HasPrefix(dir, o+"/") })
	})
}
