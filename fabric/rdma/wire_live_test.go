//go:build linux

package rdma

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/soft-roce/link"
	"github.com/ibrun/ibrun/soft-roce/live"
)

// wire is two network devices that are connected to each other, each with a Soft-RoCE device. Packets between the two leave the
// machine's network layer, as those between two machines do: they can be captured, and they need the link.
type wire struct {
	t       *testing.T
	netdevs [2]string
	devices [2]string
}

// newWire makes two connected network devices. They have no addresses.
func newWire(t *testing.T) *wire {
	t.Helper()
	live.Nodes(t, 1) // it changes the network, so it must not run on a development machine
	w := &wire{t: t, netdevs: [2]string{"wire0", "wire1"}}
	w.acceptOwnAddresses()
	w.cable("wire0", "wire1")
	w.up("wire0", "wire1")
	w.routeOverWire()
	return w
}

// newBonds makes a wire of two cables. Each end is a bond of two network devices, of which it uses one.
func newBonds(t *testing.T) *wire {
	t.Helper()
	live.Nodes(t, 1)
	w := &wire{t: t, netdevs: [2]string{"bond0", "bond1"}}
	w.acceptOwnAddresses()
	for _, bond := range w.netdevs {
		w.ip("link add " + bond + " type bond mode active-backup miimon 20")
		t.Cleanup(func() { w.ip("link delete " + bond) })
	}
	for _, cable := range []string{"a", "b"} {
		w.cable(cable+"0", cable+"1")
		w.ip("link set " + cable + "0 master bond0")
		w.ip("link set " + cable + "1 master bond1")
	}
	w.up("a0", "a1", "b0", "b1", "bond0", "bond1")
	w.routeOverWire()
	return w
}

// cable makes two network devices that are connected to each other.
func (w *wire) cable(a, b string) {
	w.t.Helper()
	w.ip("link add " + a + " type veth peer name " + b)
	w.t.Cleanup(func() { w.ip("link delete " + a) })
}

// up sets the links of network devices up.
func (w *wire) up(netdevs ...string) {
	w.t.Helper()
	for _, n := range netdevs {
		w.ip("link set " + n + " up")
	}
}

// wireTable is the routing table of IPv6 packets that are sent by end 0 of the wire; the next one is that of end 1.
const wireTable = 100

// routeOverWire makes IPv6 packets that an end of the wire sends go over the wire, although their destination is an address of
// this machine: it looks up their routes in a table of the end before it looks for addresses of the machine. IPv4 does so by
// itself.
func (w *wire) routeOverWire() {
	w.t.Helper()
	w.ip("-6 rule add pref 10 lookup local")
	w.t.Cleanup(func() { w.ip("-6 rule delete pref 10") })
	w.ip("-6 rule delete pref 0")
	w.t.Cleanup(func() { w.ip("-6 rule add pref 0 lookup local") })
	for end, netdev := range w.netdevs {
		w.ip(fmt.Sprintf("-6 rule add pref %d oif %s lookup %d", end+1, netdev, wireTable+end))
		w.t.Cleanup(func() { w.ip(fmt.Sprintf("-6 rule delete pref %d", end+1)) })
	}
}

// acceptOwnAddresses makes the machine accept packets from the wire whose source is one of its own addresses.
func (w *wire) acceptOwnAddresses() {
	w.t.Helper()
	for _, s := range []string{"all/accept_local=1", "default/accept_local=1", "all/rp_filter=0", "default/rp_filter=0",
		"default/promote_secondaries=1"} { // without the last, removing an address removes others of its network
		name, value, _ := strings.Cut(s, "=")
		if err := os.WriteFile("/proc/sys/net/ipv4/conf/"+name, []byte(value), 0); err != nil {
			w.t.Fatal(err)
		}
	}
}

// ip runs the command ip, which must succeed.
func (w *wire) ip(args string) {
	w.t.Helper()
	if err := tryIP(args); err != nil {
		w.t.Fatal(err)
	}
}

// tryIP runs the command ip.
func tryIP(args string) error {
	if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", args, err, out)
	}
	return nil
}

// settings returns the settings of peers at the ends of the wire.
func (w *wire) settings() [2]Settings {
	return [2]Settings{{Devices: w.devices[:1]}, {Devices: w.devices[1:]}}
}

// address adds an address to an end of the wire, without waiting whether another machine has it.
func (w *wire) address(end int, prefix string) {
	w.t.Helper()
	p := netip.MustParsePrefix(prefix)
	if p.Addr().Is4() {
		w.ip(fmt.Sprintf("addr add %s dev %s", prefix, w.netdevs[end]))
		return
	}
	w.ip(fmt.Sprintf("addr add %s dev %s nodad", prefix, w.netdevs[end]))
	w.ip(fmt.Sprintf("-6 route replace %v dev %s table %d", p.Masked(), w.netdevs[end], wireTable+end))
}

// addDevices creates the Soft-RoCE devices.
func (w *wire) addDevices() {
	w.t.Helper()
	for i, netdev := range w.netdevs {
		w.devices[i] = "rxe_" + netdev
		if err := link.Add(w.devices[i], netdev); err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() {
			if err := link.Delete(w.devices[i]); err != nil {
				w.t.Error(err)
			}
		})
	}
}

// during sends messages both ways while f runs in another goroutine, as many as the queues hold, and waits until all have
// arrived.
func (w *localPeers) during(f func() error) {
	w.t.Helper()
	w.sendDuring(f)
	w.exchange(1)
}

// sendDuring is during without the wait for the last messages.
func (w *localPeers) sendDuring(f func() error) {
	w.t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	w.sendUntil("the function returns", func() bool {
		select {
		case err := <-done:
			if err != nil {
				w.t.Fatal(err)
			}
			return true
		default:
			return false
		}
	})
}

// sendUntil sends messages both ways until so returns true, as many as the queues hold.
func (w *localPeers) sendUntil(what string, so func() bool) {
	w.t.Helper()
	waittest.Poll(w.t, what, func() bool {
		if so() {
			return true
		}
		for i := range w.sent {
			var b [8]byte
			binary.LittleEndian.PutUint64(b[:], w.sent[i])
			switch err := w.ep[i].Send(b[:], nil); err {
			case nil:
				w.sent[i]++
			case fabric.ErrAgain:
			default:
				w.t.Fatal(err)
			}
		}
		w.poll()
		return false
	})
}

// rocePort is the UDP port of RoCE v2.
const rocePort = 4791

// packet is what a captured RoCE packet has in its headers.
type packet struct {
	from, to netip.Addr
	class    byte // TOS of IPv4, or the traffic class of IPv6
	opcode   byte // of the base transport header: the type of the queue pair in the highest 3 bits
}

// isDatagram reports whether the packet is that of an unreliable datagram.
func (p packet) isDatagram() bool { return p.opcode>>5 == 3 }

// capture is what an end of the wire receives.
type capture struct {
	t  *testing.T
	fd int
}

// capture begins to capture the packets that an end of the wire receives, with room for many.
func (w *wire) capture(end int) *capture {
	w.t.Helper()
	protocol := binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, unix.ETH_P_ALL)) // in network order
	var info unix.Ifreq
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0) // receives nothing yet
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { unix.Close(fd) })
	r, err := unix.NewIfreq(w.netdevs[end])
	if err == nil {
		info = *r
		err = unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, &info)
	}
	err = errors.Join(err, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20))
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: int(info.Uint32())})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return &capture{w.t, fd}
}

// take returns the RoCE packets that have arrived since the last call.
func (c *capture) take() (all []packet) {
	c.t.Helper()
	b := make([]byte, 1<<16)
	for {
		n, from, err := unix.Recvfrom(c.fd, b, 0)
		if errors.Is(err, syscall.EAGAIN) {
			break
		}
		if err != nil {
			c.t.Fatal(err)
		}
		if l, ok := from.(*unix.SockaddrLinklayer); !ok || l.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		if p, ok := parsePacket(b[:n]); ok {
			all = append(all, p)
		}
	}
	stats, err := unix.GetsockoptTpacketStats(c.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil || stats.Drops > 0 {
		c.t.Fatalf("packets were not captured: %+v, %v", stats, err)
	}
	return all
}

// parsePacket parses an IP packet. It returns false if that is not one of RoCE v2.
func parsePacket(b []byte) (p packet, ok bool) {
	const udpBytes, bthBytes = 8, 12
	if len(b) < 20 {
		return p, false
	}
	var protocol byte
	switch b[0] >> 4 {
	case 4:
		p = packet{from: netip.AddrFrom4([4]byte(b[12:])), to: netip.AddrFrom4([4]byte(b[16:])), class: b[1]}
		protocol, b = b[9], b[min(len(b), int(b[0]&15)*4):]
	case 6:
		if len(b) < 40 {
			return p, false
		}
		p = packet{from: netip.AddrFrom16([16]byte(b[8:])), to: netip.AddrFrom16([16]byte(b[24:])),
			class: byte(binary.BigEndian.Uint16(b) >> 4)}
		protocol, b = b[6], b[40:]
	}
	if protocol != unix.IPPROTO_UDP || len(b) < udpBytes+bthBytes || binary.BigEndian.Uint16(b[2:]) != rocePort {
		return p, false
	}
	p.opcode = b[udpBytes]
	return p, true
}
