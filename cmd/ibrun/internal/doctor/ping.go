package doctor

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/verbs"
)

// mostPorts bounds the matrix of pings: with more ports each is tried with itself and the next one only.
const mostPorts = 16

// patience is how long a ping may take. A byte that is lost is sent again after some milliseconds.
const patience = 2 * time.Second

// station is a port that can send.
type station struct {
	name string
	dev  *verbs.Context
	port *hw.RDMAPort
	gid  hw.GIDChoice // of RoCE
}

// pingPorts sends a byte from each active RDMA port of this machine to each other one on the same network, and to itself.
func pingPorts(devices []hw.RDMADevice) []Ping {
	var stations []station
	var pings []Ping
	for i := range devices {
		d := &devices[i]
		if d.OtherNetns || d.AccessError != nil {
			continue // other checks tell
		}
		var active []*hw.RDMAPort
		for j := range d.Ports {
			if d.Ports[j].State == hw.PortActive {
				active = append(active, &d.Ports[j])
			}
		}
		if len(active) == 0 {
			continue
		}
		dev, err := verbs.Open(d.Name, verbs.Options{})
		if err != nil {
			name := portName(d, active[0])
			pings = append(pings, Ping{From: name, To: name, Err: err})
			continue
		}
		defer dev.Close() // with all that was made of it; a ping has told what is wrong with the device
		for _, p := range active {
			s := station{name: portName(d, p), dev: dev, port: p}
			if c, err := p.ChooseGID(hw.GIDRequest{}); err == nil {
				s.gid = c
			}
			stations = append(stations, s)
		}
	}
	for i, from := range stations {
		for j, to := range stations {
			near := i == j || j == (i+1)%len(stations)
			if (near || len(stations) <= mostPorts) && from.reaches(to) {
				took, err := from.ping(to)
				pings = append(pings, Ping{From: from.name, To: to.name, Time: took, Err: err})
			}
		}
	}
	return pings
}

// reaches tells whether two ports are on one network, as far as one can tell from here: of RoCE on one subnet.
func (s station) reaches(to station) bool {
	switch {
	case s.name == to.name:
		return true
	case s.port.LinkLayer != to.port.LinkLayer:
		return false
	case s.port.LinkLayer != hw.LinkEthernet:
		return s.port.SMLID == to.port.SMLID
	}
	iface, err := net.InterfaceByName(s.gid.Netdev)
	if err != nil {
		return false
	}
	addresses, err := iface.Addrs()
	if err != nil {
		return false
	}
	for _, a := range addresses {
		prefix, err := netip.ParsePrefix(a.String())
		if err == nil && !prefix.Addr().IsLinkLocalUnicast() && prefix.Contains(to.gid.Addr.Unmap()) {
			return true
		}
	}
	return false
}

// end is one end of a ping.
type end struct {
	cq *verbs.CQ
	qp *verbs.QP
	mr *verbs.MR
}

func (s station) end() (e end, err error) {
	pd, err := s.dev.AllocPD()
	if err != nil {
		return e, err
	}
	if e.mr, err = pd.Register(make([]byte, 2), verbs.LocalWrite); err != nil {
		return e, err
	}
	if e.cq, err = s.dev.CreateCQ(4, nil); err != nil {
		return e, err
	}
	e.qp, err = pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: e.cq, MaxSend: 2, MaxRecv: 2, Port: s.port.Number})
	return e, err
}

// ping sends a byte twice over a reliable connection, and measures the second: the first finds the way.
func (s station) ping(to station) (time.Duration, error) {
	from, err := s.end()
	if err != nil {
		return 0, err
	}
	peer, err := to.end()
	if err != nil {
		return 0, err
	}
	there, err := peer.qp.Address()
	if err != nil {
		return 0, err
	}
	here, err := from.qp.Address()
	if err != nil {
		return 0, err
	}
	if err := errors.Join(from.qp.Connect(there), peer.qp.Connect(here)); err != nil {
		return 0, err
	}
	var took time.Duration
	for range 2 {
		if err := peer.qp.Recv(1, peer.mr.SGE(1, 1)); err != nil {
			return 0, err
		}
		begin := time.Now()
		if err := errors.Join(from.qp.Send(2, verbs.Signaled, from.mr.SGE(0, 1)), from.qp.Ring()); err != nil {
			return 0, err
		}
		if err := errors.Join(await(from.cq, begin), await(peer.cq, begin)); err != nil {
			return 0, err
		}
		took = time.Since(begin)
	}
	return took, nil
}

// await waits for one completion.
func await(cq *verbs.CQ, begin time.Time) error {
	var wc [1]verbs.WC
	for time.Since(begin) < patience {
		n, err := cq.Poll(wc[:])
		if err != nil {
			return err
		}
		if n > 0 {
			return wc[0].Err()
		}
	}
	return fmt.Errorf("nothing happened within %v", patience)
}
