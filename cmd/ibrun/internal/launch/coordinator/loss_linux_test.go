package coordinator

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/control"
)

// Node 0 blames its own network if the kernel knows that it is broken, or if all nodes become silent at the same time, and
// otherwise the node that is lost, unless that is the only other one.
func TestLossReason(t *testing.T) {
	at := time.Now()
	silent := func(after time.Duration) *loss {
		return &loss{err: fmt.Errorf("%w for 2s", control.ErrSilent), since: at.Add(after)}
	}
	inVain := &loss{err: fmt.Errorf("%w for 2s: %w", control.ErrSilent, control.ErrInVain), since: at}
	died := &loss{err: control.ErrDied, since: at}
	own := silent(0)
	own.here = "its interface eth0 is down"
	done := func(after time.Duration) *node { return &node{done: true, doneAt: at.Add(after)} }
	lost := func(l *loss) *node { return &node{done: true, loss: l} }
	for _, c := range []struct {
		name   string
		others []*node // the first is the one that is explained
		want   string
	}{
		{"one of one", []*node{lost(silent(0))}, "the connection to node 1 (n1) at <nil> is lost: no heartbeat for 2s"},
		{"one of two", []*node{lost(silent(0)), done(time.Second)}, "node 1 (n1) at <nil> is lost: no heartbeat for 2s"},
		{"one of two, the other was done before", []*node{lost(silent(0)), done(-time.Second)},
			"node 1 (n1) at <nil> is lost: no heartbeat for 2s"},
		{"both", []*node{lost(silent(0)), lost(silent(-time.Second))},
			"the network of node 0 (n0) has failed: all other nodes are silent"},
		{"both, a third was done before", []*node{lost(silent(0)), lost(silent(0)), done(-1)}, "the network of node 0 (n0) has failed"},
		{"both, a third was done later", []*node{lost(silent(0)), lost(silent(0)), done(1)}, "node 1 (n1) at <nil> is lost"},
		{"both, a third died", []*node{lost(silent(0)), lost(silent(0)), lost(died)}, "node 1 (n1) at <nil> is lost"},
		{"both, one much later", []*node{lost(silent(0)), lost(silent(time.Minute))}, "node 1 (n1) at <nil> is lost"},
		{"its own interface", []*node{lost(own), done(1)},
			"the network of node 0 (n0) has failed: its interface eth0 is down; the connection to node 1 is lost"},
		{"all, over other connections too", []*node{lost(inVain), lost(inVain)},
			"the connection to node 1 (n1) at <nil> is lost: no heartbeat for 2s: long packets may not arrive"},
		{"another one, over other connections too", []*node{lost(silent(0)), lost(inVain)}, "node 1 (n1) at <nil> is lost"},
		{"it died", []*node{lost(died), lost(silent(0))}, "the ibrun of node 1 (n1) at <nil> was killed or has crashed"},
		{"its connection ended", []*node{lost(&loss{err: io.EOF}), done(1)}, "the connection to node 1 (n1) at <nil> is lost: EOF"},
	} {
		job := &coordinator{nodes: []*node{{name: "n0"}}}
		for i, n := range c.others {
			n.number, n.name, n.conn = i+1, fmt.Sprintf("n%d", i+1), new(control.Conn)
			job.nodes = append(job.nodes, n)
		}
		if got := job.lossReason(job.nodes[1]); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestNetworkFault: an address that no interface has any more is a fault of the network of this
// machine. An address that an interface has, with a route, is not.
func TestNetworkFault(t *testing.T) {
	tcp := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1} }
	const gone = "no interface of it has the address 192.0.2.1"
	if got := networkFault(tcp("192.0.2.1"), tcp("192.0.2.2")); !strings.Contains(got, gone) {
		t.Errorf("an address that no interface has: %q", got)
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range interfaces {
		addrs, err := i.Addrs()
		if err != nil || i.Flags&net.FlagUp == 0 || i.Flags&net.FlagRunning == 0 {
			continue
		}
		for _, a := range addrs {
			if in, ok := a.(*net.IPNet); ok && in.IP.To4() != nil {
				if got := networkFault(tcp(in.IP.String()), tcp(in.IP.String())); got != "" {
					t.Errorf("%v of %s: %q", in.IP, i.Name, got)
				}
			}
		}
	}
}
