package hw

import (
	"fmt"
	"os"

	"github.com/Mellanox/rdmamap"
)

// RDMAOf returns the name of the RDMA device behind a network interface of this namespace: an Ethernet interface, a
// VLAN or a bond with GIDs, or the first interface of an InfiniBand device.
func RDMAOf(netdev string) (device string, err error) {
	defer func() {
		// rdmamap slices addresses and files without a check of their length.
		if p := recover(); p != nil {
			device, err = "", fmt.Errorf("hw: find the RDMA device of %s: %v", netdev, p)
		}
	}()
	device, err = rdmamap.GetRdmaDeviceForNetdevice(netdev)
	if err == nil && device == "" {
		err = os.ErrNotExist
	}
	if err != nil {
		return "", fmt.Errorf("hw: find the RDMA device of %s: %w", netdev, err)
	}
	return device, nil
}
