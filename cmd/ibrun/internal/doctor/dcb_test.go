package doctor

import (
	"encoding/binary"
	"net"
	"testing"
)

// attr encodes a netlink attribute.
func attr(kind uint16, value ...byte) (b []byte) {
	b = binary.NativeEndian.AppendUint16(b, uint16(4+len(value)))
	b = append(binary.NativeEndian.AppendUint16(b, kind), value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// app encodes an entry of the table of applications.
func app(selector, priority uint8, protocol uint16) []byte {
	return attr(dcbIEEEApp, binary.NativeEndian.AppendUint16([]byte{selector, priority}, protocol)...)
}

// dcbAnswer returns what the kernel answers for an interface with PFC on priority 3. The code points 10 and 26 have priority 3,
// 48 has 6; another entry is not one of code points.
func dcbAnswer() []byte {
	pfc := make([]byte, dcbPFCBytes)
	pfc[0], pfc[1] = 8, 1<<3
	var table []byte
	for _, a := range [][]byte{app(1, 5, 0x8906), app(5, 3, 10), app(5, 3, 26), app(5, 6, 48)} {
		table = append(table, a...)
	}
	ieee := append(attr(1, 1, 2, 3), append(attr(dcbIEEEPFC, pfc...), attr(dcbIEEEAppTable|1<<15, table...)...)...)
	return append([]byte{0, 21, 0, 0}, append(attr(1, 'e', 't', 'h', 0), attr(dcbAttrIEEE|1<<15, ieee...)...)...)
}

func TestFlowControl(t *testing.T) {
	f, found, err := parseFlowControl(dcbAnswer())
	if err != nil || !found || f.String() != "3" || len(f.dscp) != 3 || f.dscp[26] != 3 || f.dscp[48] != 6 ||
		f.trafficClass() != 106 {
		t.Errorf("%+v, %v, %v, traffic class %d", f, found, err, f.trafficClass())
	}
	if _, found, err := parseFlowControl([]byte{0, 21, 0, 0}); found || err != nil {
		t.Errorf("no attributes: %v, %v", found, err)
	}
	for _, c := range []struct {
		f    flowControl
		want int
		text string
	}{
		{flowControl{lossless: 1 << 3}, 106, "3"},
		{flowControl{lossless: 1<<5 | 1<<6}, 170, "5, 6"},
		{flowControl{lossless: 1 << 3, dscp: map[uint8]uint8{46: 3}}, 46<<2 | 2, "3"},
		{flowControl{}, 0, "none"},
	} {
		if c.f.String() != c.text || c.f.lossless != 0 && c.f.trafficClass() != c.want {
			t.Errorf("%+v: %v, traffic class %d; want %s and %d", c.f, c.f, c.f.trafficClass(), c.text, c.want)
		}
	}
}

// A part of an answer is an error, or says nothing about the interface.
func TestFlowControlPrefixes(t *testing.T) {
	whole := dcbAnswer()
	for n := range len(whole) {
		if f, found, err := parseFlowControl(whole[:n]); err == nil && found {
			t.Errorf("%d of %d bytes: %+v", n, len(whole), f)
		}
	}
	for name, bad := range map[string][]byte{
		"short pfc": attr(dcbAttrIEEE, attr(dcbIEEEPFC, 8, 8)...),
		"short entry": attr(dcbAttrIEEE, append(attr(dcbIEEEPFC, make([]byte, dcbPFCBytes)...),
			attr(dcbIEEEAppTable, attr(1, 5)...)...)...),
	} {
		if _, found, err := parseFlowControl(append(make([]byte, 4), bad...)); found || err == nil {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
}

func FuzzFlowControl(f *testing.F) {
	f.Add(dcbAnswer())
	f.Add(dcbAnswer()[:40])
	f.Fuzz(func(t *testing.T, answer []byte) {
		got, found, err := parseFlowControl(answer)
		if err == nil && found && (len(got.dscp) > 64 || got.String() == "" || got.trafficClass() < 0) {
			t.Fatalf("%x was parsed as %+v", answer, got)
		}
	})
}

// Interfaces without data center bridging, such as lo, and names that do not exist are not errors.
func TestReadFlowControl(t *testing.T) {
	names := []string{"gone0"}
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range interfaces {
		if i.Flags&net.FlagLoopback != 0 {
			names = append(names, i.Name)
		}
	}
	for _, name := range names {
		if f, found, err := readFlowControl(name); found || err != nil {
			t.Errorf("%s: %+v, %v, %v", name, f, found, err)
		}
	}
}
