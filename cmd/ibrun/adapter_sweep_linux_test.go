//go:build linux && !static && (amd64 || arm64)

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/internal/ibvmock"
	"github.com/ibrun/ibrun/internal/soaktest"
)

// sweepCalls are the functions of libibverbs that jobs call and that can fail.
var sweepCalls = []string{"ibv_modify_qp", "ibv_get_device_list", "ibv_open_device", "ibv_query_device", "ibv_query_port",
	"_ibv_query_gid_table", "ibv_query_pkey", "ibv_get_async_event", "ibv_alloc_pd", "ibv_dealloc_pd", "ibv_reg_mr", "ibv_dereg_mr",
	"ibv_create_ah", "ibv_destroy_ah", "ibv_create_comp_channel", "ibv_destroy_comp_channel", "ibv_create_cq", "ibv_destroy_cq",
	"ibv_get_cq_event", "ibv_req_notify_cq", "ibv_create_qp", "ibv_query_qp", "ibv_destroy_qp", "ibv_create_srq",
	"ibv_destroy_srq", "ibv_post_send", "ibv_post_recv", "ibv_post_srq_recv", "ibv_poll_cq", "ibv_close_device"}

// sweptRefusal is a call that device dev0 refuses in each process of some nodes.
type sweptRefusal struct {
	call  string
	errno syscall.Errno
	way   int // of sweepWays
	once  bool
}

// sweepWays are the combinations of the first, a later and every call; the second node and both; one and two devices.
const sweepWays = 3 * 2 * 2

const ranksPerNode = 2 // of adapters.start

func (r sweptRefusal) skip() uint32 { return [...]uint32{0, 3, 0}[r.way%3] } // calls before that succeed
func (r sweptRefusal) count() uint32 {
	if r.way%3 == 0 || r.way%3 == 1 && r.once {
		return 1
	}
	return ibvmock.Always
}
func (r sweptRefusal) both() bool   { return r.way/3%2 == 1 }
func (r sweptRefusal) second() bool { return r.way/6 == 1 }

func (r sweptRefusal) String() string {
	which := [...]string{"the first", "a later", "each"}[r.way%3]
	if r.count() > 1 && r.skip() > 0 {
		which = "each later"
	}
	return fmt.Sprintf("%s %s with %v at %s with %s", which, r.call, r.errno,
		[...]string{"one node", "both nodes"}[r.way/3%2], [...]string{"one device", "two devices"}[r.way/6])
}

// sweptRefusals returns each call with each error, each time in the next way: so each call occurs in all ways.
func sweptRefusals() (all []sweptRefusal) {
	for i, call := range sweepCalls {
		for k, errno := range ibvmock.Errnos() {
			all = append(all, sweptRefusal{call, errno, (5*i + k) % sweepWays, (i+k)%2 == 0})
		}
	}
	return all
}

// TestAdapterSweep: device dev0 refuses the first call of a function, a later one or all, on one node or on both, without or with
// another device. The job ends right. If RDMA or a device is given up, a node says so in one line, which names the call and the
// error, and so does a rank whose device releases nothing at the end. If there is another device, it carries the messages. With
// IBRUN_SOAK=1 it goes through all calls and errors, else through some.
func TestAdapterSweep(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	over := map[string]int{}
	t.Cleanup(func() { t.Logf("jobs by transport and number of lines: %v", over) })
	for _, r := range soaktest.Sample(sweptRefusals(), 3) {
		t.Run(r.String(), func(t *testing.T) {
			t.Parallel()
			kind := r.run(t)
			mu.Lock()
			defer mu.Unlock()
			over[kind]++
		})
	}
}

// run runs a job with the refusal, and returns over what it ran and how many lines it printed.
func (r sweptRefusal) run(t *testing.T) string {
	devices := "dev0=mlx5_ib"
	if r.second() {
		devices += ",dev1=mlx5_roce@1"
	}
	a := newAdapters(t, devices, devices)
	for k, host := range a.hosts {
		if k == 1 || r.both() {
			host.RefuseSome(ibvmock.Refusal{Function: r.call, Errno: r.errno, Skip: r.skip(), Count: r.count(), Device: "dev0"})
		}
	}
	a.start("")
	a.wantSuccess()
	transport := a.transportBetweenNodes()
	said := 0
	for k, p := range a.list {
		said += r.check(t, p.stderrText(), k == 1 || r.both())
	}
	if transport != "rdma" && (said == 0 || r.second() && r.call != "ibv_get_device_list") {
		t.Errorf("%s is used; node 0 printed\n%s\nnode 1 printed\n%s", transport, a.list[0].stderrText(), a.list[1].stderrText())
	}
	return fmt.Sprint(transport, " ", said)
}

// releases reports whether all calls of a function that releases something are refused. EIO does not count: the device is then
// taken for lost, and the kernel has released everything.
func (r sweptRefusal) releases() bool {
	return r.way%3 == 2 && r.errno != syscall.EIO &&
		slices.Contains([]string{"ibv_dereg_mr", "ibv_destroy_cq", "ibv_dealloc_pd", "ibv_close_device"}, r.call)
}

// namedIn reports whether a line names the call and the error. ENOMEM of a call that posts means that the queue is full, which
// the line says in their place. But ibv_post_send also submits requests that were posted before, for which there was room.
func (r sweptRefusal) namedIn(line string) bool {
	reason := r.errno.Error()
	if r.call == "ibv_poll_cq" {
		reason = "" // drivers return numbers of their own
	}
	named := strings.Contains(line, strings.TrimPrefix(r.call, "_")) && strings.Contains(line, reason)
	if strings.HasPrefix(r.call, "ibv_post_") && r.errno == syscall.ENOMEM {
		return strings.Contains(line, "the queue is full") || named && r.call == "ibv_post_send"
	}
	return named
}

// check checks what a node has printed, and returns how many of its lines say what is given up.
func (r sweptRefusal) check(t *testing.T, text string, refuses bool) (lines int) {
	t.Helper()
	unreleased := 0
	for line := range strings.Lines(text) {
		switch {
		case strings.Contains(line, "not everything was released"):
			unreleased++
		case strings.Contains(line, "RDMA"):
			lines++
		default:
			continue
		}
		if !r.namedIn(line) {
			t.Errorf("the line does not name the call and the error: %s", line)
		}
	}
	missing := refuses && r.releases() && unreleased == 0
	if lines > 1 || missing || unreleased > ranksPerNode || strings.Contains(text, "peer is down") ||
		strings.Contains(text, "ibvmock:") {
		t.Errorf("a node printed\n%s", text)
	}
	return lines
}

// transportBetweenNodes returns over which transport the ranks of different nodes have sent most bytes.
func (a *adapters) transportBetweenNodes() string {
	a.t.Helper()
	bytes := map[string]int64{}
	for _, p := range readReport(a.t, filepath.Join(a.dir, "report.json")).Pairs {
		if p.From/ranksPerNode != p.To/ranksPerNode {
			bytes[p.Transport] += int64(p.Bytes)
		}
	}
	var names []string
	for name := range bytes {
		names = append(names, name)
	}
	if len(names) == 0 {
		a.t.Fatal("ranks of different nodes have sent nothing")
	}
	return slices.MaxFunc(names, func(x, y string) int { return int(bytes[x] - bytes[y]) })
}
