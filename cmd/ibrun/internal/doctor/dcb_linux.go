package doctor

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Numbers of linux/dcbnl.h that a request needs.
const (
	dcbIEEEGet    = 21 // DCB_CMD_IEEE_GET
	dcbAttrIfname = 1  // DCB_ATTR_IFNAME
)

// dcbHeader is a struct dcbmsg.
type dcbHeader struct{}

func (dcbHeader) Len() int          { return dcbHeaderBytes }
func (dcbHeader) Serialize() []byte { return []byte{unix.AF_UNSPEC, dcbIEEEGet, 0, 0} }

// readFlowControl asks the kernel for the flow control of an interface. found is false if the kernel, the driver or the interface
// has none.
func readFlowControl(netdev string) (f flowControl, found bool, err error) {
	request := nl.NewNetlinkRequest(unix.RTM_GETDCB, unix.NLM_F_REQUEST)
	request.AddData(dcbHeader{})
	request.AddData(nl.NewRtAttr(dcbAttrIfname, append([]byte(netdev), 0)))
	answers, err := request.Execute(unix.NETLINK_ROUTE, 0)
	switch {
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENODEV), errors.Is(err, unix.EPERM):
		return f, false, nil // no support, or a network namespace of a user: the kernel refuses it there
	case err != nil:
		return f, false, fmt.Errorf("ask the kernel for the flow control of %s: %w", netdev, err)
	case len(answers) == 0:
		return f, false, nil
	}
	return parseFlowControl(answers[0])
}
