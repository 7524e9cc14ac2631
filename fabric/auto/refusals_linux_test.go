package auto

import (
	"strings"
	"syscall"
	"testing"
	"time"

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

// TestDeviceRefusesConnection: if the device of one of two processes refuses the first connection between them, they use TCP, and
// one of them says why, once.
func TestDeviceRefusesConnection(t *testing.T) {
	t.Parallel()
	for _, refused := range []verbstest.SimulatedCall{verbstest.CallCreateQP, verbstest.CallModifyQP} {
		for poor := range 2 {
			job := newCluster(t, time.Second, "eth", "eth")
			job.beforePoll = func(i int) {
				job.net.Refuse(func(c verbstest.SimulatedCall) error {
					if i == poor && c == refused {
						return syscall.ENOMEM
					}
					return nil
				})
			}
			began := time.Now()
			job.exchange()
			t.Logf("connected after %v: %q", time.Since(began), job.notes)
			if got := job.routes(); got != "0-1 tcp" {
				t.Errorf("%v at process %d: the routes are %s", refused, poor, got)
			}
			if len(job.notes) != 1 || !strings.Contains(job.notes[0], syscall.ENOMEM.Error()) {
				t.Errorf("%v at process %d: reported: %q", refused, poor, job.notes)
			}
			job.beforePoll = nil
			job.net.Refuse(nil)
		}
	}
}
