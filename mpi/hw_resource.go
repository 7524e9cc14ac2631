package mpi

// GetHWResourceInfo returns the hardware to which this process is restricted now. Each key is a type of hardware
// resource. Its value is true if all threads of the process may run only within one instance of it, and false
// otherwise. Each call reads the machine and the affinity again and returns a new Info. It is local. Where the system
// does not provide the data, it fails with errors.ErrUnsupported.
//
// Keys that begin with hwloc:// are types as hwloc spells them, if the machine has them: Machine, Package, NUMANode,
// L3Cache, L2Cache, L1Cache, Core, PU. Keys that begin with ibrun:// are single instances, on the node called NAME:
//
//	ibrun://NAME/core/7        also machine/0, package, numa, l3, l2, l1 and pu: those in which the process may run
//	ibrun://NAME/rdma/DEV/PORT a port that can carry traffic; ibrun://rail/K is its rail, see package hw
//	ibrun://NAME/gpu/K         GPU number K by PCI address; also gpu/K/MODEL, if its model is known
//	ibrun://NAME/pci/0000:3a   a PCI root complex
//
// The value for a device is true if no other device of its kind is nearer to any PU on which the process may run. The
// number of numa and pu is the kernel's; the other numbers are hwloc's logical indexes. Characters of NAME with a
// meaning in URIs are escaped.
//
// Every key can be the value of mpi_hw_resource_type in [Comm.SplitType]. MPI-5.0 §9.1.3.
func (p *Process) GetHWResourceInfo() (*Info, error) {
	i, err := p.core().Machine().HWResources()
	return (*Info)(i), result(p.core(), "GetHWResourceInfo", err)
}
