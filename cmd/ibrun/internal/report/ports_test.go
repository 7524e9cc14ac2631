package report

import (
	"reflect"
	"testing"
	"testing/fstest"
)

// machine returns files of an RDMA device with two ports, the second of which is down, and of three interfaces.
func machine(carried string) fstest.MapFS {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text + "\n")} }
	const rdma, net = "sys/class/infiniband/mlx5_0/", "sys/class/net/"
	return fstest.MapFS{
		rdma + "node_type":     file("1: CA"),
		rdma + "ports/1/state": file("4: ACTIVE"), rdma + "ports/2/state": file("1: DOWN"),
		rdma + "ports/1/counters/port_xmit_data": file(carried), rdma + "ports/1/counters/port_rcv_data": file("10"),
		rdma + "ports/2/counters/port_xmit_data": file("7"), rdma + "ports/2/counters/port_rcv_data": file("8"),
		net + "eth0/device": file(""), net + "eth0/operstate": file("up"),
		net + "eth0/statistics/tx_bytes": file(carried), net + "eth0/statistics/rx_bytes": file("5"),
		net + "eth1/device": file(""), net + "eth1/operstate": file("down"),
		net + "eth1/statistics/tx_bytes": file("1"), net + "eth1/statistics/rx_bytes": file("1"),
		net + "lo/operstate": file("unknown"), net + "lo/statistics/tx_bytes": file("1"), net + "lo/statistics/rx_bytes": file("1"),
	}
}

// TestPorts: the ports that are up are read, and PortsSince returns the difference of two readings.
func TestPorts(t *testing.T) {
	before, after := ReadPorts(machine("100")), ReadPorts(machine("600"))
	want := []Port{{"mlx5_0:1", RDMA, 400, 40}, {"eth0", Ethernet, 100, 5}}
	if !reflect.DeepEqual(before, want) {
		t.Errorf("read %v, want %v", before, want)
	}
	want = []Port{{"mlx5_0:1", RDMA, 2000, 0}, {"eth0", Ethernet, 500, 0}}
	if got := PortsSince(before, after); !reflect.DeepEqual(got, want) {
		t.Errorf("carried %v, want %v", got, want)
	}
	if got := PortsSince(after, before); len(got) != 0 {
		t.Errorf("counters that went back are %v", got)
	}
	if got := PortsSince(nil, after); len(got) != 0 {
		t.Errorf("ports without a first reading carried %v", got)
	}
}

// TestImbalance: ports are compared with the mean of their kind.
func TestImbalance(t *testing.T) {
	got := Imbalance([]Port{{"a:1", RDMA, 3e6, 0}, {"b:1", RDMA, 0, 1e6}, {"eth0", Ethernet, 9e6, 0}})
	want := []PortImbalance{{Kind: RDMA, Ports: 2, Most: "a:1", Share: 0.5}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := Imbalance([]Port{{"a:1", RDMA, 1e5, 0}, {"b:1", RDMA, 0, 0}}); got != nil {
		t.Errorf("an imbalance of too few bytes is reported: %v", got)
	}
}
