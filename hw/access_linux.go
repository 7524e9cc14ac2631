package hw

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// CanOpen returns nil if this process may open the device for verbs, otherwise an [*AccessError]. It opens the file of
// the device and closes it.
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
	if err := d.accessError(c, uint64(st.Rdev), nil); err != nil {
		return err
	}
	return d.softRoCEError(os.ReadFile(udpSockets))
}

// udpSockets lists the UDP sockets of the network namespace of the calling thread.
const udpSockets = "/proc/thread-self/net/udp"

// softRoCEError returns an AccessError for a Soft-RoCE device that gets no packets in this network namespace, given the content
// of udpSockets. The driver receives by a socket of its own, which Linux 6.1 creates in the initial namespace only. A device can
// be created and opened in others, but sends nothing.
func (d *RDMADevice) softRoCEError(sockets []byte, err error) error {
	const localPort = ":12B7 " // 4791, the UDP port of RoCE v2
	if d.Provider != "rxe" || err != nil || bytes.Contains(sockets, []byte(localPort)) {
		return nil
	}
	return &AccessError{Device: d.Name, Err: syscall.EOPNOTSUPP, Reason: "Soft-RoCE does not work in this network namespace: with " +
		"this kernel it does only in the initial one; run the program there, or a container with the network of its host"}
}

// accessError returns the AccessError for the result of opening file c: an error, or the number of the device behind the
// file. It returns nil if the device can be used.
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
		o.Reason = fmt.Sprintf("%s is not the device %d:%d but %d:%d; create the file again",
			c.Path(), c.Major, c.Minor, unix.Major(dev), unix.Minor(dev))
	default:
		return nil
	}
	return o
}
