package hw

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/Mellanox/rdmamap"
)

// RDMAOf returns the name of the RDMA device behind a network interface of this namespace: an Ethernet interface, a
// VLAN or a bond with GIDs, or the first interface of an InfiniBand port.
func RDMAOf(netdev string) (device string, err error) {
	defer func() {
		// rdmamap slices addresses and files without a check of their length.
		if p := recover(); p != nil {
			device, err = "", fmt.Errorf("hw: find the RDMA device of %s: %v", netdev, p)
		}
	}()
	devices, errList := LocalRDMA()
	if device = deviceOf(devices, netdev); device == "" {
		device, err = rdmamap.GetRdmaDeviceForNetdevice(netdev)
		err = errors.Join(err, errList)
	}
	if device != "" {
		return device, nil
	}
	if err == nil {
		err = os.ErrNotExist
	}
	return "", fmt.Errorf("hw: find the RDMA device of %s: %w", netdev, err)
}

// deviceOf returns the name of the device that has a port or a GID of a network interface; "" if none has. Unlike rdmamap, which
// compares the address of an InfiniBand interface with the GUID of the node, it finds each port of a device that has several, and
// virtual functions.
func deviceOf(devices []RDMADevice, netdev string) string {
	for _, d := range devices {
		for _, p := range d.Ports {
			named := slices.ContainsFunc(p.GIDs, func(g GID) bool { return g.Netdev == netdev })
			here := slices.ContainsFunc(p.GIDs, func(g GID) bool { return g.Netdev == netdev && !g.OtherNetns })
			if !d.OtherNetns && (here || !named && p.Netdev == netdev) { // GIDs say of which namespace their interface is
				return d.Name
			}
		}
	}
	return ""
}
