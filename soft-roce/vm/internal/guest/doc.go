// Package guest has the programs that run inside a virtual machine: the first process, the agent, and the command vm exec. The
// agent runs programs for the host and for the other node. vm exec requests that from inside a guest.
//
//	init     loads the modules, mounts the host's files, creates rxe0
//	└── agent     serves the channel to the host
//	    ├── the command of the host
//	    └── commands of the other node's `vm exec`
//
// All three are the same static program, so an image contains only this program and the modules.
package guest

import (
	"encoding/json"
	"slices"
	"strings"
)

// Config is the configuration of a guest. It is in the file ConfigFile of its image.
type Config struct {
	// Node is the number of this guest, from 0. Addrs has the IPv4 address of each.
	Node  int
	Addrs []string
	// Bin is the directory with vm and ibrun.
	Bin string
	// Keep are directories of the host that stay visible where the guest has a file system of its own.
	Keep []string
}

// Files and directories in the image.
const (
	ConfigFile = "config"
	ModuleDir  = "modules"
	InitFile   = "init"
)

// Names that host and guest agree on.
const (
	// PortName is the name of the virtual serial port to the host.
	PortName = "ibrun.vm"
	// MountTag is the 9p tag of the host's files.
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

// AgentWord is the argument that makes the program run as the agent.
const AgentWord = "agent"

// Encode returns the content of ConfigFile.
func (c *Config) Encode() ([]byte, error) { return json.Marshal(c) }

// tmpfsDirs are directories with a tmpfs of the guest, which is writable and empty at first.
var tmpfsDirs = []string{"/tmp", "/run", "/dev/shm"}

// Hidden returns those of the host's directories that a guest sees only if Config.Keep names them.
func Hidden(dirs []string) []string {
	return slices.DeleteFunc(slices.Clone(dirs), func(dir string) bool {
		return !slices.ContainsFunc(tmpfsDirs, func(o string) bool { return strings.HasPrefix(dir, o+"/") })
	})
}
