package doctor

import (
	"encoding/binary"
	"errors"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// numPriorities is the number of priorities of Ethernet.
const numPriorities = 8

// flowControl is the priority flow control (PFC) of an interface.
type flowControl struct {
	lossless uint8 // bit N: PFC is on for priority N
	// dscp maps code points of packets to priorities, as far as the interface has a table of them. A code point that is not in a
	// table has priority 0.
	dscp map[uint8]uint8
}

// has reports whether a priority has PFC.
func (f flowControl) has(priority uint8) bool { return f.lossless>>priority&1 != 0 }

// String lists the priorities that have PFC.
func (f flowControl) String() string {
	if f.lossless == 0 {
		return "none"
	}
	var words []string
	for p := range uint8(numPriorities) {
		if f.has(p) {
			words = append(words, strconv.Itoa(int(p)))
		}
	}
	return strings.Join(words, ", ")
}

// trafficClass returns the traffic class whose packets have the first priority with PFC: its code point times 4, plus 2 for "the
// sender reacts to congestion marks". Without a table of code points, it is the one that interfaces and switches choose by
// default: 26 for priority 3.
func (f flowControl) trafficClass() int {
	priority := uint8(bits.TrailingZeros8(f.lossless))
	const usual = 2 // of the 8 code points of a priority
	point := priority*numPriorities + usual
	if len(f.dscp) > 0 && f.dscp[point] != priority {
		for _, p := range slices.Sorted(maps.Keys(f.dscp)) {
			if f.dscp[p] == priority {
				point = p
				break
			}
		}
	}
	return int(point)<<2 | 2
}

// Numbers of linux/dcbnl.h.
const (
	dcbAttrIEEE     = 13 // DCB_ATTR_IEEE
	dcbIEEEPFC      = 2  // DCB_ATTR_IEEE_PFC, a struct ieee_pfc
	dcbIEEEAppTable = 3  // DCB_ATTR_IEEE_APP_TABLE
	dcbIEEEApp      = 1  // DCB_ATTR_IEEE_APP, a struct dcb_app
	dcbSelectDSCP   = 5  // IEEE_8021QAZ_APP_SEL_DSCP

	dcbPFCBytes    = 136 // of a struct ieee_pfc
	dcbAppBytes    = 4   // of a struct dcb_app
	dcbHeaderBytes = 4   // of a struct dcbmsg
)

var errDCB = errors.New("the kernel's answer about data center bridging is cut short")

// parseFlowControl parses the kernel's answer to DCB_CMD_IEEE_GET: a struct dcbmsg and attributes. found is false if the
// interface has no PFC.
func parseFlowControl(answer []byte) (f flowControl, found bool, err error) {
	if len(answer) < dcbHeaderBytes {
		return f, false, errDCB
	}
	ieee, _, err := findAttr(answer[dcbHeaderBytes:], dcbAttrIEEE)
	if err != nil {
		return f, false, err
	}
	pfc, found, err := findAttr(ieee, dcbIEEEPFC)
	if err != nil || !found {
		return f, false, err
	}
	if len(pfc) < dcbPFCBytes {
		return f, false, errDCB
	}
	f.lossless = pfc[1]
	table, _, err := findAttr(ieee, dcbIEEEAppTable)
	if err != nil {
		return f, false, err
	}
	for len(table) > 0 {
		kind, app, rest, err := nextAttr(table)
		if err != nil || kind == dcbIEEEApp && len(app) < dcbAppBytes {
			return f, false, errDCB
		}
		table = rest
		point := uint16(0)
		if kind == dcbIEEEApp {
			point = binary.NativeEndian.Uint16(app[2:])
		}
		if kind == dcbIEEEApp && app[0] == dcbSelectDSCP && point < 64 && app[1] < numPriorities {
			if f.dscp == nil {
				f.dscp = map[uint8]uint8{}
			}
			f.dscp[uint8(point)] = app[1]
		}
	}
	return f, true, nil
}

// findAttr returns the value of the first netlink attribute of a type.
func findAttr(list []byte, want uint16) (value []byte, found bool, err error) {
	for len(list) > 0 {
		kind, v, rest, err := nextAttr(list)
		if err != nil {
			return nil, false, err
		}
		if kind == want {
			return v, true, nil
		}
		list = rest
	}
	return nil, false, nil
}

// nextAttr returns the first netlink attribute of a list: a length and a type of two bytes each, and the value, padded to four
// bytes.
func nextAttr(list []byte) (kind uint16, value, rest []byte, err error) {
	const header, flags = 4, 3 << 14
	if len(list) < header {
		return 0, nil, nil, errDCB
	}
	n := int(binary.NativeEndian.Uint16(list))
	if n < header || n > len(list) {
		return 0, nil, nil, errDCB
	}
	return binary.NativeEndian.Uint16(list[2:]) &^ flags, list[header:n], list[min((n+3)&^3, len(list)):], nil
}
