package hw

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"

	"github.com/Mellanox/rdmamap"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

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

// markOtherNetns marks what belongs to another network namespace. Without devices netlink is not asked: the question would
// load a kernel module.
func markOtherNetns(devices []RDMADevice) error {
	if len(devices) == 0 {
		return nil
	}
	here, err := listInterfaces()
	if err != nil {
		return err
	}
	links, err := netlink.RdmaLinkList()
	if err != nil {
		err = fmt.Errorf("hw: list RDMA devices of this network namespace: %w", err)
	}
	for i := range devices {
		d := &devices[i]
		if err != nil {
			d.Problems = append(d.Problems, err.Error())
		} else {
			d.OtherNetns = !slices.ContainsFunc(links, func(l *netlink.RdmaLink) bool { return l.Attrs.Name == d.Name })
		}
		for p := range d.Ports {
			for g := range d.Ports[p].GIDs {
				gid := &d.Ports[p].GIDs[g]
				gid.OtherNetns = gid.Netdev != "" && !here[gid.Netdev].hasGID(gid.Addr)
			}
		}
	}
	return nil
}

// netInterface is an interface of this network namespace.
type netInterface struct {
	mac   net.HardwareAddr
	addrs []netip.Addr // in 16-byte form
}

func listInterfaces() (map[string]netInterface, error) {
	list, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("hw: list network interfaces: %w", err)
	}
	here := map[string]netInterface{}
	for _, nic := range list {
		addrs, err := nic.Addrs()
		if err != nil {
			return nil, fmt.Errorf("hw: list addresses of %s: %w", nic.Name, err)
		}
		n := netInterface{mac: nic.HardwareAddr}
		for _, a := range addrs {
			if prefix, ok := a.(*net.IPNet); ok && len(prefix.IP.To16()) == 16 {
				n.addrs = append(n.addrs, netip.AddrFrom16([16]byte(prefix.IP.To16())))
			}
		}
		here[nic.Name] = n
	}
	return here, nil
}

// hasGID tells whether a GID is of this interface and not of one with the same name elsewhere. Besides its addresses
// an interface has the link-local GID that the kernel makes of the MAC, whatever addresses there are.
func (n netInterface) hasGID(gid netip.Addr) bool {
	if slices.Contains(n.addrs, gid) {
		return true
	}
	if len(n.mac) != 6 || !gid.IsLinkLocalUnicast() {
		return false
	}
	m := n.mac
	return gid.As16() == [16]byte{0: 0xfe, 0x80, 8: m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]}
}

// CanOpen tells whether this process may open the device for verbs: nil, or an [*AccessError]. It opens the device's
// file and closes it.
func (d *RDMADevice) CanOpen() error {
	c, found := d.Uverbs()
	if !found || d.OtherNetns {
		return d.accessError(c, 0, nil)
	}
	fd, err := unix.Open(c.Path(), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return d.accessError(c, 0, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return d.accessError(c, 0, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR {
		st.Rdev = 0
	}
	return d.accessError(c, uint64(st.Rdev), nil)
}

// accessError judges what came of opening the file: an error, or the number of the device behind it.
func (d *RDMADevice) accessError(c CharDevice, dev uint64, err error) error {
	o := &AccessError{Device: d.Name, Err: err}
	if c.Name != "" {
		o.File = c.Path()
	}
	switch {
	case d.OtherNetns:
		o.Err = syscall.EPERM
		o.Reason = fmt.Sprintf("it belongs to another network namespace; rdma dev set %s netns ... moves it", d.Name)
	case c.Name == "":
		o.Err = syscall.ENODEV
		o.Reason = "the kernel offers no verbs file for it; modprobe ib_uverbs"
	case errors.Is(err, syscall.ENOENT):
		o.Reason = c.Path() + " is missing; a container needs it passed in, a host needs udev"
	case errors.Is(err, syscall.EACCES):
		o.Reason = c.Path() + " is not readable and writable for this user; see its mode and group"
	case errors.Is(err, syscall.EPERM):
		o.Reason = c.Path() + " is forbidden, as by the device list of a cgroup; a container needs the device allowed"
	case errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.ENODEV):
		o.Reason = "there is no device behind " + c.Path() + "; was it removed, or its driver unloaded?"
	case err != nil:
		o.Reason = "open " + c.Path()
	case dev != unix.Mkdev(c.Major, c.Minor):
		o.Err = syscall.ENODEV
		o.Reason = fmt.Sprintf("%s is not the device %d:%d but %d:%d; make the file anew",
			c.Path(), c.Major, c.Minor, unix.Major(dev), unix.Minor(dev))
	default:
		return nil
	}
	return o
}

// RDMAOf returns the name of the RDMA device behind a network interface of this namespace: an Ethernet interface, a
// VLAN or a bond with GIDs, or the first interface of an InfiniBand device.
func RDMAOf(netdev string) (device string, err error) {
	defer func() {
		// rdmamap slices addresses and files without looking at their length.
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
