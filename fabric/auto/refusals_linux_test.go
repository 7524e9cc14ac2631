package auto

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma"
	"github.com/ibrun/ibrun/internal/tunables"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// TestDeviceCannotServe: a process whose device cannot serve uses TCP, and says why, once. The others use RDMA.
func TestDeviceCannotServe(t *testing.T) {
	for lack, limit := range map[string]func(*verbstest.SimulatedDevice){
		"max_qp_rd_atom":            func(d *verbstest.SimulatedDevice) { d.Attr.MaxQPRdAtom = 0 },
		"reliable connections (RC)": func(d *verbstest.SimulatedDevice) { d.NoRC = true },
		"datagrams (UD)":            func(d *verbstest.SimulatedDevice) { d.NoUD = true },
		"max_qp":                    func(d *verbstest.SimulatedDevice) { d.Attr.MaxQP = 2 },
	} {
		net := verbstest.NewSimulatedNetwork()
		net.SetDevice("eth-1", limit)
		job := newClusterOn(t, net, 0, "eth", "eth", "eth")
		job.exchange()
		if got, want := job.routes(), "0-1 tcp, 0-2 eth, 1-2 tcp"; got != want {
			t.Errorf("%s: the routes are %s, want %s", lack, got, want)
		}
		want := "1: TCP is used instead of RDMA: fabric/rdma: device eth-1 cannot be used: " + lack + ": "
		if len(job.notes) != 1 || !strings.HasPrefix(job.notes[0], want) {
			t.Errorf("reported: %q, want %q", job.notes, want)
		}
	}
}

// TestNamedDevices: IBRUN_RDMA_DEVICES names a device or a port that does not exist. One line names it, whether the node has
// other devices, another device of the list, or none at all. RDMA is used if the list begins with a device that exists.
func TestNamedDevices(t *testing.T) {
	const tcp = "TCP is used instead of RDMA: fabric/rdma: device "
	const other = "one RDMA device is not used, but another is: fabric/rdma: device "
	for _, c := range []struct {
		devices string
		exist   []string // simulated devices; nil: those of this machine, which has none of that name
		want    string   // the beginning of the line
		says    string
	}{
		{"nosuch_9", nil, tcp + "nosuch_9 cannot be used: open: ", ""},
		{"nosuch_9:2", nil, tcp + "nosuch_9 cannot be used: open: ", ""},
		{"nosuch_9", []string{"eth-0"}, tcp + "nosuch_9 cannot be used: open: ", "other devices exist, such as eth-0"},
		{"nosuch_9,eth-0", []string{"eth-0"}, tcp + "nosuch_9 cannot be used: open: ", ""},
		{"eth-0:9", []string{"eth-0"}, tcp + "eth-0 cannot be used: port: eth-0:9 is demanded, but its ports are 1 to 1", ""},
		{"eth-0,nosuch_9", []string{"eth-0"}, other + "nosuch_9 cannot be used: open: ", ""},
		{"eth-0,eth-1:9", []string{"eth-0", "eth-1"}, other + "eth-1 cannot be used: port: eth-1:9 is demanded", ""},
	} {
		t.Setenv(tunables.RDMADevices, c.devices)
		var lines []string
		n := Node{Local: []int{0}, Transports: []string{"rdma", "tcp"}, Interfaces: []string{"lo"},
			Report: func(text string) { lines = append(lines, text) }}
		if c.exist != nil {
			n.network = verbstest.NewSimulatedNetwork().Node(c.exist...)
		}
		d, err := Open(t.Context(), &fabric.Config{Size: 2}, n)
		if err != nil {
			t.Fatalf("%s: %v", c.devices, err)
		}
		if uses := bytes.Contains(d.Addr(), []byte("rdma")); uses != strings.HasPrefix(c.want, other) {
			t.Errorf("%s: RDMA is used: %v", c.devices, uses)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if len(lines) != 1 || !strings.HasPrefix(lines[0], c.want) || !strings.Contains(lines[0], c.says) ||
			!strings.Contains(lines[0], tunables.RDMADevices) {
			t.Errorf("%s: reported %q, want one line that begins with %q", c.devices, lines, c.want)
		}
		n.Transports = []string{"rdma"}
		if d, err := Open(t.Context(), &fabric.Config{Size: 2}, n); err == nil {
			err = d.Close()
			if err != nil || !strings.HasPrefix(c.want, other) {
				t.Errorf("%s: opened without TCP: %v", c.devices, err)
			}
		}
		// What `ibrun doctor` asks names the same.
		uses, err := n.Uses()
		if err != nil || !slices.ContainsFunc(uses, func(u rdma.Use) bool {
			return u.Err != nil && strings.Contains(lines[0], u.Err.Error())
		}) {
			t.Errorf("%s: uses %v, %v", c.devices, uses, err)
		}
	}
}

// TestDeviceRefusesState: if the device of one of two processes refuses to connect the queue pair that it has created, they use
// TCP, and one of them says why, once.
func TestDeviceRefusesState(t *testing.T) {
	for poor := range 2 {
		t.Run(fmt.Sprint("process ", poor), func(t *testing.T) {
			t.Parallel()
			job := newCluster(t, 0, "eth", "eth")
			job.beforePoll = func(i int) {
				job.net.Refuse(func(c verbstest.SimulatedCall) error {
					if i == poor && c == verbstest.CallModifyQP {
						return syscall.ENOMEM
					}
					return nil
				})
			}
			job.exchange()
			if got := job.routes(); got != "0-1 tcp" {
				t.Errorf("the routes are %s", got)
			}
			if len(job.notes) != 1 || !strings.Contains(job.notes[0], syscall.ENOMEM.Error()) {
				t.Errorf("reported: %q", job.notes)
			}
			job.net.Refuse(nil)
		})
	}
}

// TestDeviceLostBefore: the device of a process is lost before the process has connected to others, or while it tries. They use
// another transport, whichever side connects first, and one process of each pair says why, once. Other pairs use RDMA.
func TestDeviceLostBefore(t *testing.T) {
	for name, c := range map[string]struct {
		trying bool
		nodes  []string
		want   string
	}{
		"idle":           {false, []string{"ib", "ib", "ib"}, "0-1 tcp, 0-2 ib, 1-2 tcp"},
		"connecting":     {true, []string{"ib", "ib", "ib"}, "0-1 tcp, 0-2 ib, 1-2 tcp"},
		"another subnet": {true, []string{"ib eth", "ib eth", "ib eth"}, "0-1 eth, 0-2 ib, 1-2 eth"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := newCluster(t, 0, c.nodes...)
			if c.trying {
				for peer := 0; peer <= 2; peer += 2 {
					if err := job.connect(1, peer).Send([]byte("early"), nil); err != fabric.ErrAgain {
						t.Fatal(err)
					}
				}
				job.poll(1)
			}
			job.net.RemoveDevice("ib-1")
			job.exchange()
			if got := job.routes(); got != c.want {
				t.Errorf("the routes are %s, want %s", got, c.want)
			}
			if len(job.notes) != 2 {
				t.Errorf("reported: %q", job.notes)
			}
		})
	}
}

// TestReasonOfDeviceInUse: a process cannot answer over the device by which a peer connects. Both use TCP, and the reason is that
// of this device, although the process would reach the peer over another one if the peer had that, and that one is lost.
func TestReasonOfDeviceInUse(t *testing.T) {
	t.Parallel()
	job := newCluster(t, 0, "eth", "ib eth")
	job.net.RefuseOn(func(device string, c verbstest.SimulatedCall) error {
		if device == "eth-1" && c == verbstest.CallSend {
			return syscall.EINVAL
		}
		return nil
	})
	job.net.RemoveDevice("ib-1")
	job.sendOne()
	if got := job.routes(); got != "0-1 tcp" {
		t.Errorf("the routes are %s", got)
	}
	if len(job.notes) != 1 || !strings.Contains(job.notes[0], "ibv_post_send: "+syscall.EINVAL.Error()) {
		t.Errorf("reported: %q", job.notes)
	}
	job.net.RefuseOn(nil)
}

// sendOne sends a message from process 0 to process 1, which does not connect itself.
func (c *cluster) sendOne() {
	c.t.Helper()
	sent := false
	waittest.Poll(c.t, "the message arrives", func() bool {
		if !sent {
			err := c.connect(0, 1).Send([]byte("message"), nil)
			if err != nil && err != fabric.ErrAgain {
				c.t.Fatal(err)
			}
			sent = err == nil
		}
		return len(c.pollAll()) > 0
	})
}

// timesInLine matches what differs from run to run in the line about connection requests that were in vain.
var timesInLine = regexp.MustCompile(` [0-9]+( connection requests)| [0-9.]+m?s(:)`)

// TestAddressHandles: a device has too few address handles for answers to its peers. The line names the limit, or the call that
// is refused, and neither the peer nor the network.
func TestAddressHandles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit  uint32        // that the device reports
		refuse syscall.Errno // of each handle once the device is open
		want   string        // the line, with N in place of what depends on time
	}{
		"one is reported": {limit: 1, want: "1: TCP is used instead of RDMA: fabric/rdma: device eth-1 cannot be used: max_ah: the " +
			"device has 1, but 2 are needed: an address handle for connection messages, and one for answers to probes; choose another " +
			"device (IBRUN_RDMA_DEVICES) or another transport"},
		"none is left": {limit: 1 << 16, refuse: syscall.ENOMEM, want: "0: TCP is used instead of RDMA to process 1, which answers " +
			"over TCP: N connection requests by device eth-0, from RoCE v2 ::ffff:10.0.1.1 to RoCE v2 ::ffff:10.0.1.2 in N: the peer " +
			"says: fabric: not supported: device eth-1 refuses the connection: verbs: create an address handle on eth-1: out of memory " +
			"or of resources of the device: ibv_create_ah: cannot allocate memory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			net := verbstest.NewSimulatedNetwork()
			net.SetDevice("eth-1", func(d *verbstest.SimulatedDevice) { d.Attr.MaxAH = c.limit })
			job := newClusterOn(t, net, 0, "eth", "eth")
			net.RefuseOn(func(device string, call verbstest.SimulatedCall) error {
				if device == "eth-1" && call == verbstest.CallCreateAH && c.refuse != 0 {
					return c.refuse
				}
				return nil
			})
			job.sendOne()
			net.RefuseOn(nil)
			if got := job.routes(); got != "0-1 tcp" || len(job.notes) != 1 {
				t.Fatalf("the routes are %s; reported %q", got, job.notes)
			}
			got := timesInLine.ReplaceAllString(job.notes[0], " N$1$2")
			if got != c.want {
				t.Errorf("reported:\n%s\nwant:\n%s", got, c.want)
			}
		})
	}
}
