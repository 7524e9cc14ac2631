//go:build unix

package verbstest

import (
	"net/netip"
	"slices"

	"github.com/ibrun/ibrun/verbs"
)

// SimulatedNode is a node of a simulated network: the devices that processes on it can open.
type SimulatedNode struct {
	net     *SimulatedNetwork
	devices []string
}

// Node returns the node that has the devices with these names. Nodes of one network may have devices of the same name, which
// then behave alike. Without names, the node lists no device, and opens every one.
func (n *SimulatedNetwork) Node(devices ...string) *SimulatedNode { return &SimulatedNode{n, devices} }

// Separate loses every packet from one device to another for which f returns true, as a VLAN or a firewall does: the addresses of
// the devices do not show it. A nil f loses none.
func (n *SimulatedNetwork) Separate(f func(from, to string) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.separate = f
}

// LoseLarge loses every packet of a connection with more payload than so many bytes, as a switch with a small MTU does. 0 loses
// none.
func (n *SimulatedNetwork) LoseLarge(bytes int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.largest = bytes
}

// Fail makes a request of a connection fail with the status that f returns for the bytes that it moves, and brings its queue pair
// to the error state. If f returns success or is nil, the request is carried out. f must not call the network, which is locked.
func (n *SimulatedNetwork) Fail(f func(bytes int) verbs.Status) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fail = f
}

// FailReceives makes the receive of a message fail with the status that f returns for its length, and brings the queue pair of
// the receiver to the error state. The sender gets no answer. If f returns success or is nil, the message arrives. f must not
// call the network, which is locked.
func (n *SimulatedNetwork) FailReceives(f func(bytes int) verbs.Status) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failReceive = f
}

// RetransmitForever makes devices retransmit what Separate and LoseLarge lose without limit, as Soft-RoCE does with 7 retries:
// the request neither fails nor ends. Otherwise it fails at once.
func (n *SimulatedNetwork) RetransmitForever(on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.forever = on
}

// Devices lists the devices of the node.
func (s *SimulatedNode) Devices() ([]verbs.Device, error) {
	var list []verbs.Device
	for _, name := range s.devices {
		list = append(list, verbs.Device{RDMADevice: s.net.describe(name)})
	}
	return list, nil
}

// Open opens a device of the node. For others the error is that of [verbs.Open].
func (s *SimulatedNode) Open(name string) (*verbs.Context, error) {
	if len(s.devices) > 0 && !slices.Contains(s.devices, name) {
		return nil, &verbs.Error{Op: "open", Device: name, Kind: verbs.ErrNoDevice,
			Detail: "other devices exist, such as " + s.devices[0]}
	}
	return s.net.Open(name)
}

// Prefix returns the network of an address. In simulated networks a prefix has 24 bits for IPv4, and 64 for IPv6.
func (*SimulatedNode) Prefix(_ string, a netip.Addr) netip.Prefix {
	bits := 64
	if a.Unmap().Is4() {
		bits = 24
	}
	p, _ := a.Unmap().Prefix(bits) // never fails: the length fits
	return p
}
