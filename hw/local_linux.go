package hw

import ()

// Local reads this machine, as [Read] does, with this process's affinity, what the kernel tells of RDMA devices over
// netlink, and for each whether this process can open it.
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

// LocalRDMA reads the RDMA devices of this machine, as [ReadRDMA] does, and marks what belongs to another network
// namespace than the calling process: devices by what the kernel lists over netlink, GIDs by the addresses of this
// namespace's interfaces. In a container /sys often shows those of the host.
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
