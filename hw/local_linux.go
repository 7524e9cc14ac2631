package hw

import ()

// Local reads this machine as [Read] does. It adds the affinity of this process, information about RDMA devices that
// only netlink provides, and for each RDMA device whether this process can open it.
func Local() (*Topology, error) {
	tree, err := openRoot()
	if err != nil {
		return nil, err
	}
	defer tree.close()
	allowed, err := Affinity()
	if err != nil {
		return nil, err
	}
	top, err := Read(tree, WithAffinity(allowed))
	if err != nil {
		return nil, err
	}
	if err := markOtherNetns(top.RDMA); err != nil {
		return nil, err
	}
	addNetlinkInfo(top.RDMA)
	for i := range top.RDMA {
		top.RDMA[i].AccessError = asAccessError(&top.RDMA[i], top.RDMA[i].CanOpen())
	}
	return top, nil
}

// LocalRDMA reads the RDMA devices of this machine as [ReadRDMA] does. It also sets OtherNetns for whatever belongs to a
// network namespace other than that of the calling process: for devices by the list that the kernel returns over
// netlink, for GIDs by the addresses of the interfaces of this namespace. In a container /sys often shows the devices of
// the host.
func LocalRDMA() ([]RDMADevice, error) {
	tree, err := openRoot()
	if err != nil {
		return nil, err
	}
	defer tree.close()
	devices, err := ReadRDMA(tree)
	if err != nil {
		return nil, err
	}
	return devices, markOtherNetns(devices)
}
