package report

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/ibrun/ibrun/hw"
)

// The kinds of ports.
const (
	RDMA     = "rdma"
	Ethernet = "net" // any network interface that has hardware
)

// Port is a port of an RDMA device, mlx5_0:1, or a network interface, eth0.
type Port struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Sent and Received are the bytes of everything on the machine, not only of the job.
	Sent     uint64 `json:"sent_bytes"`
	Received uint64 `json:"received_bytes"`
}

// ReadPorts reads the byte counters of the ports that are up. They count since the machine started. A port whose counters cannot
// be read is omitted: many drivers have none.
func ReadPorts(root fs.FS) []Port {
	const wordBytes = 4 // the counters of the InfiniBand standard count words
	var all []Port
	devices, err := hw.ReadRDMA(root)
	if err != nil {
		devices = nil
	}
	for i := range devices {
		for _, port := range devices[i].Ports {
			if port.State != hw.PortActive {
				continue
			}
			c, err := hw.ReadCounters(root, devices[i].Name, port.Number)
			if err != nil {
				continue
			}
			sent, haveSent := c.Port["port_xmit_data"]
			received, haveReceived := c.Port["port_rcv_data"]
			if haveSent && haveReceived {
				all = append(all, Port{devices[i].Name + ":" + strconv.Itoa(port.Number), RDMA, wordBytes * sent, wordBytes * received})
			}
		}
	}
	const net = "sys/class/net"
	interfaces, err := fs.ReadDir(root, net)
	if err != nil {
		return all
	}
	for _, i := range interfaces {
		dir := path.Join(net, i.Name())
		_, err := fs.Stat(root, dir+"/device") // interfaces without hardware have no device
		state, _ := fs.ReadFile(root, dir+"/operstate")
		sent, errSent := number(root, dir+"/statistics/tx_bytes")
		received, errReceived := number(root, dir+"/statistics/rx_bytes")
		if err == nil && strings.TrimSpace(string(state)) != "down" && errSent == nil && errReceived == nil {
			all = append(all, Port{i.Name(), Ethernet, sent, received})
		}
	}
	return all
}

func number(root fs.FS, name string) (uint64, error) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
}

// PortsSince returns what the ports carried since an earlier reading. A port that the earlier reading lacks is omitted, because
// its counters then are unknown.
func PortsSince(earlier, later []Port) []Port {
	all := []Port{}
	for _, p := range later {
		i := slices.IndexFunc(earlier, func(e Port) bool { return e.Name == p.Name && e.Kind == p.Kind })
		if i < 0 || p.Sent < earlier[i].Sent || p.Received < earlier[i].Received {
			continue
		}
		p.Sent -= earlier[i].Sent
		p.Received -= earlier[i].Received
		all = append(all, p)
	}
	return all
}

// PortImbalance describes how unevenly the ports of one kind were used.
type PortImbalance struct {
	Kind  string
	Ports int
	// Most is the port that carried most. Share is its excess over the mean, relative to the mean: 0.5 is 50 % more.
	Most  string
	Share float64
}

// Imbalance compares the ports of each kind, if there are several and they carried at least a megabyte.
func Imbalance(ports []Port) []PortImbalance {
	var all []PortImbalance
	for _, kind := range []string{RDMA, Ethernet} {
		u, sum, most := PortImbalance{Kind: kind}, uint64(0), uint64(0)
		for _, p := range ports {
			if p.Kind != kind {
				continue
			}
			u.Ports++
			sum += p.Sent + p.Received
			if n := p.Sent + p.Received; n > most {
				u.Most, most = p.Name, n
			}
		}
		if u.Ports < 2 || sum < 1e6 {
			continue
		}
		u.Share = float64(most)*float64(u.Ports)/float64(sum) - 1
		all = append(all, u)
	}
	return all
}

func kindName(kind string) string {
	if kind == RDMA {
		return "RDMA port"
	}
	return "interface"
}
