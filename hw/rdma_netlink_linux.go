package hw

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// What package netlink does not have of the kernel's rdma_netlink.h.
const (
	cmdPortGet   = 5  // RDMA_NLDEV_CMD_PORT_GET
	attrNdevName = 51 // RDMA_NLDEV_ATTR_NDEV_NAME
)

// addNetlinkInfo adds information that only netlink provides: the interface of each port, which sysfs does not state,
// and the number of open resources of a device.
func addNetlinkInfo(devices []RDMADevice) {
	if len(devices) == 0 {
		return // a request would load a kernel module
	}
	links, err := netlink.RdmaLinkList()
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return // the kernel has no netlink for RDMA
	}
	resources, errResources := netlink.RdmaResourceList()
	for i := range devices {
		d := &devices[i]
		if d.OtherNetns {
			continue
		}
		for _, err := range []error{err, errResources} {
			if err != nil {
				d.Problems = append(d.Problems, fmt.Sprintf("netlink: %v", err))
			}
		}
		for _, r := range resources {
			if r.Name == d.Name {
				d.Resources = r.RdmaResourceSummaryEntries
			}
		}
		for _, link := range links {
			if link.Attrs.Name != d.Name {
				continue
			}
			if err := d.addPortNetdevs(link.Attrs.Index); err != nil {
				d.Problems = append(d.Problems, fmt.Sprintf("netlink: ports: %v", err))
			}
		}
	}
}

// addPortNetdevs requests the interfaces of the device's ports.
func (d *RDMADevice) addPortNetdevs(index uint32) error {
	request := nl.NewNetlinkRequest(nl.RDMA_NL_NLDEV<<10|cmdPortGet, unix.NLM_F_DUMP)
	request.AddData(nl.NewRtAttr(nl.RDMA_NLDEV_ATTR_DEV_INDEX, nl.Uint32Attr(index)))
	answers, err := request.Execute(unix.NETLINK_RDMA, 0)
	if err != nil {
		return err
	}
	for _, answer := range answers {
		port, netdev, err := parsePortAttrs(answer)
		if err != nil {
			return err
		}
		for i := range d.Ports {
			if d.Ports[i].Number == int(port) && netdev != "" {
				d.Ports[i].Netdev = netdev
			}
		}
	}
	return nil
}

var errTruncated = errors.New("hw: netlink attributes are cut short")

// parsePortAttrs parses the number and interface of a port in a netlink answer. The answer is a list of attributes. Each
// has a two-byte length, a two-byte type, and the value, padded to four bytes. The kernel writes the interface after the
// number, if there is one.
func parsePortAttrs(answer []byte) (port uint32, netdev string, err error) {
	for len(answer) > 0 {
		if len(answer) < 4 {
			return 0, "", errTruncated
		}
		length := int(binary.NativeEndian.Uint16(answer))
		if length < 4 || length > len(answer) {
			return 0, "", errTruncated
		}
		value := answer[4:length]
		switch binary.NativeEndian.Uint16(answer[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER) {
		case nl.RDMA_NLDEV_ATTR_PORT_INDEX:
			if len(value) != 4 {
				return 0, "", errTruncated
			}
			port = binary.NativeEndian.Uint32(value)
		case attrNdevName:
			var whole bool
			if netdev, whole = strings.CutSuffix(string(value), "\x00"); !whole {
				return 0, "", errTruncated
			}
		}
		answer = answer[min((length+3)&^3, len(answer)):]
	}
	if port == 0 {
		return 0, "", errTruncated
	}
	return port, netdev, nil
}
