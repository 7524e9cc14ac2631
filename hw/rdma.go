package hw

import (
	"net/netip"
)

// RDMADevice is one RDMA device: a NIC, a function of one, or a software device. Strings are empty and GUIDs are 0 if
// the kernel does not provide them.
type RDMADevice struct {
	Name string   `json:"name"` // as in /sys/class/infiniband: mlx5_0
	Type NodeType `json:"type"`

	// Driver is the kernel driver of the device below, such as mlx5_core; software devices have none. Provider is
	// rdma-core's name for the driver's user-space half: mlx5, irdma, rxe.
	Driver   string `json:"driver,omitempty"`
	Provider string `json:"provider,omitempty"`

	NodeGUID     GUID   `json:"node_guid"`
	SysImageGUID GUID   `json:"sys_image_guid"`
	Firmware     string `json:"firmware,omitempty"`
	BoardID      string `json:"board_id,omitempty"`
	HCAType      string `json:"hca_type,omitempty"`

	PCI      string `json:"pci,omitempty"`       // address of the PCI function: 0000:c1:00.0
	NUMA     int    `json:"numa"`                // the NUMA node it is attached to, -1 when that is unknown
	LocalPUs []int  `json:"local_pus,omitempty"` // the PUs near it, ascending; nil when unknown

	Ports []RDMAPort   `json:"ports"`
	Chars []CharDevice `json:"chars"` // its files in /dev/infiniband

	// OtherNetns means that the device belongs to another network namespace and cannot be used from this one.
	OtherNetns bool `json:"away,omitempty"`

	// Resources counts the objects that all processes have open on the device, by the kernel's names: qp, cq, mr, pd, ctx,
	// cm_id. Only [Local] reads it.
	Resources map[string]uint64 `json:"resources,omitempty"`

	// AccessError is the reason why this process cannot open the device. It is nil if it can, or if this was not checked.
	AccessError *AccessError `json:"obstacle,omitempty"`

	// Problems lists files that could not be read or understood. Their fields have the values for unknown.
	Problems []string `json:"problems,omitempty"`
}

// NodeType is the type of the device according to the kernel.
type NodeType string

// The node types, enum rdma_node_type.
const (
	NodeCA          NodeType = "CA" // InfiniBand and RoCE
	NodeSwitch      NodeType = "switch"
	NodeRouter      NodeType = "router"
	NodeRNIC        NodeType = "RNIC" // iWARP
	NodeUSNIC       NodeType = "usNIC"
	NodeUSNICUDP    NodeType = "usNIC UDP"
	NodeUnspecified NodeType = "unspecified" // a protocol of its own, such as EFA
)

// RDMAPort is one port of a device.
type RDMAPort struct {
	Number int `json:"number"` // from 1

	// State and PhysState are the kernel's names, such as [PortActive] and LinkUp.
	State     string    `json:"state"`
	PhysState string    `json:"phys_state"`
	Rate      uint64    `json:"rate"` // bits per second, 0 when unknown
	LinkLayer LinkLayer `json:"link_layer"`

	LID     uint16 `json:"lid"` // InfiniBand only, as is SMLID
	SMLID   uint16 `json:"sm_lid"`
	CapMask uint32 `json:"cap_mask"` // enum ib_port_capability_mask_bits

	// Netdev is the network interface that belongs to the port, if any: eth0, or the bond above it, or ib0.
	Netdev string `json:"netdev,omitempty"`

	GIDs  []GID    `json:"gids"`  // by ascending index, empty entries left out
	PKeys []uint16 `json:"pkeys"` // the table, without the empty entries at its end
}

// PortActive is the state of a port that can carry traffic.
const PortActive = "ACTIVE"

// LinkLayer is the type of network that a port is connected to.
type LinkLayer string

// The link layers.
const (
	LinkInfiniBand LinkLayer = "InfiniBand"
	LinkEthernet   LinkLayer = "Ethernet"
	LinkUnknown    LinkLayer = "Unknown"
)

// GID is an entry of a port's GID table: an address under which peers reach the port.
type GID struct {
	Index  int        `json:"index"`
	Addr   netip.Addr `json:"addr"` // always in its 16-byte form
	Type   GIDType    `json:"type"`
	Netdev string     `json:"netdev,omitempty"` // the interface that has this address; none on InfiniBand

	// OtherNetns means that this interface belongs to another network namespace. The kernel refuses to send from this GID.
	OtherNetns bool `json:"away,omitempty"`
}

// GIDType is the protocol that a GID belongs to.
type GIDType string

// The GID types, enum ib_gid_type.
const (
	GIDInfiniBand GIDType = "IB" // also of iWARP and EFA, whose peers are not addressed by GID
	GIDRoCEv1     GIDType = "RoCE v1"
	GIDRoCEv2     GIDType = "RoCE v2"
)

// CharDevice is a file below /dev/infiniband through which programs access a device.
type CharDevice struct {
	Kind  string `json:"kind"` // uverbs, umad, issm or rdma_cm, the one that all devices share
	Name  string `json:"name"` // as in /dev/infiniband: uverbs0
	Port  int    `json:"port,omitempty"`
	Major uint32 `json:"major"`
	Minor uint32 `json:"minor"`

	// ABI is the version of the protocol of the file. For uverbs it is the version of the driver's private protocol, which
	// the provider must support.
	ABI int `json:"abi"`
}

// Path returns the path at which udev creates the file.
func (c CharDevice) Path() string { return "/dev/infiniband/" + c.Name }

// Uverbs returns the file for verbs, and whether the device has one.
func (d *RDMADevice) Uverbs() (CharDevice, bool) {
	for _, c := range d.Chars {
		if c.Kind == "uverbs" {
			return c, true
		}
	}
	return CharDevice{}, false
}
