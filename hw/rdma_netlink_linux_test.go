package hw

import (
	"encoding/binary"
	"testing"
)

// attrs encodes attributes from alternating types and values.
func attrs(parts ...any) (message []byte) {
	for i := 0; i < len(parts); i += 2 {
		kind, value := parts[i].(int), parts[i+1].(string)
		message = binary.NativeEndian.AppendUint16(message, uint16(4+len(value)))
		message = binary.NativeEndian.AppendUint16(message, uint16(kind))
		message = append(message, value...)
		for len(message)%4 != 0 {
			message = append(message, 0)
		}
	}
	return message
}

func number(n uint32) string { return string(binary.NativeEndian.AppendUint32(nil, n)) }

func TestPort(t *testing.T) {
	whole := attrs(1, number(7), 2, "mlx5_0\x00", 3, number(2), 12, "\x04", attrNdevName, "eth0abc\x00")
	if port, netdev, err := parsePortAttrs(whole); port != 2 || netdev != "eth0abc" || err != nil {
		t.Errorf("the port is %d, %q, %v; want 2 and eth0abc", port, netdev, err)
	}
	for n := range len(whole) {
		if port, netdev, err := parsePortAttrs(whole[:n]); err == nil && netdev != "" {
			t.Errorf("%d of %d bytes parse as port %d, %q", n, len(whole), port, netdev)
		}
	}
	for name, bad := range map[string][]byte{
		"no port":                       attrs(1, number(7)),
		"number of two bytes":           attrs(3, "\x01\x00"),
		"name without its end":          attrs(3, number(1), attrNdevName, "eth0"),
		"length below that of a header": {3, 0, 3, 0},
	} {
		if port, netdev, err := parsePortAttrs(bad); err == nil {
			t.Errorf("%s: parsed as port %d, %q", name, port, netdev)
		}
	}
}

func FuzzPort(f *testing.F) {
	f.Add(attrs(3, number(1), attrNdevName, "eth0\x00"))
	f.Fuzz(func(t *testing.T, message []byte) {
		if port, _, err := parsePortAttrs(message); err == nil && port == 0 {
			t.Error("port 0, which no device has")
		}
	})
}

// Local includes the affinity of the process.
func TestLocal(t *testing.T) {
	top, err := Local()
	if err != nil {
		t.Fatal(err)
	}
	affinity, err := Affinity()
	if err != nil {
		t.Fatal(err)
	}
	if FormatList(top.Affinity) != FormatList(affinity) || len(top.Allowed) == 0 || len(top.Allowed) > len(affinity) {
		t.Errorf("affinity is %v, and allowed %v; want %v and a part of it", top.Affinity, top.Allowed, affinity)
	}
}
