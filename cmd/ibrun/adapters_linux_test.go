//go:build linux && !static && (amd64 || arm64)

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/doctor"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/report"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/ibvmock"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/internal/waittest"
)

// adapters is a job on nodes with simulated adapters.
type adapters struct {
	*nodes
	dir   string
	hosts []*ibvmock.Node
}

// newAdapters prepares a job with a node for each list of devices, which has the form of [ibvmock.Environment].
func newAdapters(t *testing.T, devices ...string) *adapters {
	t.Helper()
	a := &adapters{nodes: newNodes(t, len(devices)), dir: t.TempDir()}
	network := ibvmock.NewNetwork(t)
	for k, list := range devices {
		a.hosts = append(a.hosts, network.NewNode(fmt.Sprint("n", k), list))
	}
	return a
}

// start starts ibrun on all nodes, with two ranks on each. The job writes a report. With until, the ranks exchange messages until
// a file of that name exists, and start returns when all have exchanged some.
func (a *adapters) start(until string, flags ...string) *adapters {
	a.t.Helper()
	args := slices.Concat([]string{"-n", fmt.Sprint(2 * a.n), "--report=" + filepath.Join(a.dir, "report.json"),
		"--tcp-interfaces", "lo"}, flags, []string{"rank", "exchange"})
	lines := 0
	if until != "" {
		args, lines = append(args, until), 2
	}
	for k, host := range a.hosts {
		a.list[k] = startCommand(a.t, 0, host.Command("ibrun", a.command(k, args...).Args[1:]...))
	}
	for _, p := range a.list {
		p.ready(lines)
	}
	return a
}

// wantSuccess checks that the job succeeds.
func (a *adapters) wantSuccess() {
	a.t.Helper()
	text, err := io.ReadAll(a.list[0].out)
	if err != nil || !strings.HasPrefix(string(text), "rounds ") {
		a.t.Errorf("rank 0 wrote %q, %v", text, err)
	}
	a.wantCode(0, "")
}

// wantTransport checks that the job succeeds, and that each pair of ranks of different nodes has sent most of its bytes over a
// transport.
func (a *adapters) wantTransport(want string) {
	a.t.Helper()
	a.wantSuccess()
	most := map[[2]int]report.Pair{}
	for _, p := range readReport(a.t, filepath.Join(a.dir, "report.json")).Pairs {
		if at := [2]int{p.From, p.To}; p.From/2 != p.To/2 && p.Bytes >= most[at].Bytes {
			most[at] = p
		}
	}
	if len(most) == 0 {
		a.t.Error("ranks of different nodes have sent nothing")
	}
	for _, p := range most {
		if p.Transport != want {
			a.t.Errorf("rank %d sent %d bytes to rank %d over %s, want %s; node 0 printed\n%s", p.From, p.Bytes, p.To, p.Transport,
				want, a.list[0].stderrText())
		}
	}
}

// TestAdapters: with each kind of adapter, explain names device and settings, doctor names the device and what is wrong with it,
// and a job uses it.
func TestAdapters(t *testing.T) {
	t.Parallel()
	for _, p := range ibvmock.Profiles() {
		if !soaktest.On() && p.Name != "irdma" {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			a := newAdapters(t, "dev0="+p.Name, "dev0="+p.Name)
			checkExplain(t, a.hosts[0], p.LinkLayer)
			var problems []string
			if p.LinkLayer == hw.LinkEthernet && p.Name != "noinline" { // packets of 1024 bytes, as with the usual Ethernet frames
				problems = []string{"mtu.size"}
			}
			checkDoctor(t, a.hosts[0], problems)
			a.start("", "--transport", "shm,rdma").wantTransport("rdma")
		})
	}
}

// TestUnlistedDriver: whether jobs can use an adapter whose driver no table names is found out by opening it as a job does.
func TestUnlistedDriver(t *testing.T) {
	t.Parallel()
	n := ibvmock.NewNetwork(t).NewNode("n0", "dev0=noinline")   // of the driver mock
	out, err := n.Command("ibrun", "doctor", "--json").Output() // its exit code depends on this machine too
	var r doctor.Report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	usable := slices.ContainsFunc(r.Findings, func(f doctor.Finding) bool {
		return f.ID == "verbs.use" && f.Severity == doctor.OK && f.Evidence == "jobs can use dev0/1"
	})
	if !usable || !strings.HasPrefix(r.Verdict.RDMA, "dev0/1") {
		t.Errorf("ibrun doctor: %v, want that jobs can use dev0/1, in\n%s", err, out)
	}
	n.Refuse("ibv_alloc_pd", syscall.EPERM)
	checkUnusable(t, n, "ibv_alloc_pd", syscall.EPERM)
}

// checkExplain checks that ibrun explain names the port of device dev0 and the settings in force.
func checkExplain(t *testing.T, host *ibvmock.Node, layer hw.LinkLayer) {
	t.Helper()
	out, err := host.Command("ibrun", "explain", "--transport", "rdma", "8,4M").CombinedOutput()
	address := map[hw.LinkLayer]string{hw.LinkInfiniBand: "dev0:1, InfiniBand LID ", hw.LinkEthernet: "dev0:1, RoCE v2 ::ffff:10."}
	for _, want := range []string{address[layer], "GID index", "service level", "path MTU", "heartbeat", "(device dev0; ",
		"rdma read"} {
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("ibrun explain: %v, want %q in\n%s", err, want, out)
		}
	}
	if strings.Contains(string(out), "P_Key") != (layer == hw.LinkInfiniBand) {
		t.Errorf("ibrun explain: a partition on %s:\n%s", layer, out)
	}
}

// checkDoctor checks that ibrun doctor can open device dev0, and that exactly these checks find a problem of it.
func checkDoctor(t *testing.T, host *ibvmock.Node, want []string) {
	t.Helper()
	out, err := host.Command("ibrun", "doctor", "--json").Output() // its exit code depends on this machine too
	var r doctor.Report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var got []string
	opened := false
	for _, f := range r.Findings {
		about := strings.Contains(f.Evidence, "dev0")
		if about && (f.Severity == doctor.Error || f.Severity == doctor.Warning) {
			got = append(got, f.ID)
		}
		opened = opened || about && f.ID == "verbs.open" && f.Severity == doctor.OK
	}
	if !opened || !slices.Equal(got, want) {
		t.Errorf("ibrun doctor: %v; opened: %v, problems %q, want %q\n%s", err, opened, got, want, out)
	}
}

// TestAdapterFaults: adapters that do not reach each other, or whose ports change. The job succeeds, and says why it uses TCP.
func TestAdapterFaults(t *testing.T) {
	t.Parallel()
	nothing := func(*adapters) {}
	for _, c := range []struct {
		name    string
		devices []string // by node
		change  func(a *adapters)
		want    string // transport
		reason  string // why it is TCP
	}{
		{"two fabrics", []string{"dev0=mlx5_ib,dev1=mlx5_roce@1", "dev0=mlx5_ib@2,dev1=mlx5_roce@3"}, nothing, "tcp",
			" connection requests by device dev"},
		{"one common fabric", []string{"dev0=mlx5_ib,dev1=mlx5_roce@1", "dev1=mlx5_roce@1"}, nothing, "rdma", ""},
		{"link layers", []string{"dev0=mlx5_ib", "dev1=mlx5_roce"}, nothing, "tcp", "one is InfiniBand, the other is not"},
		{"kinds of adapters", []string{"dev0=mlx5_vf", "dev0=hfi1"}, nothing, "rdma", ""},
		{"MTU", []string{"dev0=mlx5_roce", "dev0=irdma"}, func(a *adapters) { a.hosts[0].Set("dev0", "mtu", 1) }, "rdma", ""},
		{"partitions", []string{"dev0=mlx5_ib_lmc", "dev0=mlx5_ib"}, func(a *adapters) { a.hosts[0].SetPKey("dev0", 0, 0x8005) },
			"tcp", "no InfiniBand partition in common"},
		{"limited members", []string{"dev0=mlx5_ib_lmc", "dev0=mlx5_ib_lmc"}, func(a *adapters) {
			a.hosts[0].SetPKey("dev0", 0, 0x7fff)
			a.hosts[1].SetPKey("dev0", 0, 0x7fff)
		}, "tcp", "this process is in 0x7fff (limited); the peer in 0x7fff (limited)"},
		{"kinds of GIDs", []string{"dev0=mlx5_roce", "dev0=mlx5_roce"}, func(a *adapters) {
			a.hosts[0].RemoveGID("dev0", 2) // the IPv4 address, for RoCE v1 and v2
			a.hosts[0].RemoveGID("dev0", 3)
		}, "tcp", "one is link-local IPv6, the other IPv4"},
		{"port down", []string{"dev0=mlx5_ib", "dev0=mlx5_ib"}, func(a *adapters) { a.hosts[0].Set("dev0", "state", 1) },
			"tcp", "dev0: no port is active"},
	} {
		if !soaktest.On() && c.name != "partitions" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			a := newAdapters(t, c.devices...)
			c.change(a)
			a.start("")
			a.wantTransport(c.want)
			if text := a.list[0].stderrText(); !strings.Contains(text, c.reason) {
				t.Errorf("node 0 printed\n%s\nwant %q", text, c.reason)
			}
			for k, p := range a.list {
				if text := p.stderrText(); strings.Count(text, "TCP is used instead of RDMA") > 1 {
					t.Errorf("node %d says it more than once:\n%s", k, text)
				}
			}
		})
	}
}

// TestAdapterChanges: ports that change while a job runs.
func TestAdapterChanges(t *testing.T) {
	if !soaktest.On() {
		t.Skip("IBRUN_SOAK=1 runs it")
	}
	t.Parallel()
	const down, active = 1, 4 // enum ibv_port_state
	for _, c := range []struct {
		name           string
		devices        string // of both nodes
		flags          []string
		before, during func(a *adapters)
		want           string
	}{
		{"down and up", "dev0=mlx5_ib", nil, func(*adapters) {}, func(a *adapters) {
			a.hosts[0].Set("dev0", "state", down)
			a.hosts[0].Set("dev0", "state", active)
		}, "rdma"},
		{"second rail lost", "dev0=mlx5_ib,dev1=mlx5_ib", []string{"-x", "IBRUN_RDMA_DEVICES=dev0,dev1"}, func(*adapters) {},
			func(a *adapters) { a.hosts[0].Remove("dev1") }, "rdma"},
		{"up after the start", "dev0=mlx5_ib", nil, func(a *adapters) { a.hosts[0].Set("dev0", "state", down) },
			func(a *adapters) { a.hosts[0].Set("dev0", "state", active) }, "tcp"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAdapters(t, c.devices, c.devices)
			c.before(a)
			end := filepath.Join(a.dir, "end")
			a.start(end, c.flags...)
			c.during(a)
			if err := os.WriteFile(end, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			a.wantTransport(c.want)
		})
	}
}

// TestAdapterLost: the device that carries the messages is removed while messages of all protocols are under way.
// The job goes on over TCP with the right results, and says once why.
func TestAdapterLost(t *testing.T) {
	t.Parallel()
	two := []string{"-x", "IBRUN_RDMA_DEVICES=dev0,dev1"}
	for _, c := range []struct {
		name, devices string
		flags         []string
	}{
		{"only device", "dev0=mlx5_ib", nil},
		{"first of two rails", "dev0=mlx5_ib,dev1=mlx5_ib", two},
		{"RoCE", "dev0=mlx5_roce", nil},
	} {
		if !soaktest.On() && c.name != "only device" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			a := newAdapters(t, c.devices, c.devices)
			end := filepath.Join(a.dir, "end")
			a.start(end, c.flags...)
			a.hosts[0].Remove("dev0")
			said := func() (n int) {
				for _, p := range a.list {
					n += strings.Count(p.stderrText(), "TCP is used instead of RDMA")
				}
				return n
			}
			waittest.Until(t, "a node says that TCP is used", func() bool { return said() > 0 })
			if err := os.WriteFile(end, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			a.wantSuccess()
			if text := a.list[0].stderrText(); said() != 1 || !strings.Contains(text, "the device was lost") {
				t.Errorf("said %d times; node 0 printed\n%s", said(), text)
			}
			over := map[string]int{}
			for _, p := range readReport(t, filepath.Join(a.dir, "report.json")).Pairs {
				over[p.Transport]++
			}
			if over["tcp"] == 0 || over["rdma"] == 0 {
				t.Errorf("the transports of pairs: %v", over)
			}
		})
	}
}
