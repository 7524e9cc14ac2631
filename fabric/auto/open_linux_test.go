package auto

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/fabrictest"
	"github.com/ibrun/ibrun/fabric/shm"
	"github.com/ibrun/ibrun/internal/tunables"
	"github.com/ibrun/ibrun/verbs"
)

// job is a set of peers on several nodes, perNode on each.
type job struct {
	key        [32]byte
	perNode    int
	transports []string
}

func (*job) Name() string { return "auto" }
func (*job) Probe() error { return nil }

func (j *job) Open(ctx context.Context, c *fabric.Config) (fabric.Domain, error) {
	n := Node{Key: j.key, Transports: j.transports, Interfaces: []string{"lo"}}
	for i := c.Self / j.perNode * j.perNode; i < min(c.Size, (c.Self/j.perNode+1)*j.perNode); i++ {
		n.Local = append(n.Local, i)
	}
	return Open(ctx, c, n)
}

func jobPeers(perNode int, transports ...string) fabrictest.Peers {
	return func(_ testing.TB, n int) []fabric.Transport {
		j := &job{perNode: perNode, transports: transports}
		rand.Read(j.key[:])
		return slices.Repeat([]fabric.Transport{j}, n)
	}
}

// TestNetwork: between nodes with one process each, everything goes over the network. (Nodes with several processes have domains
// with different limits, which the suite does not support; package mpi's tests run over them.)
func TestNetwork(t *testing.T) { fabrictest.Run(t, jobPeers(1, "tcp")) }

// TestOneNode: if all peers share memory, no address is needed.
func TestOneNode(t *testing.T) {
	if d := openAlone(t, jobPeers(1)); d.Addr() != nil {
		t.Errorf("address %x", d.Addr())
	}
}

// TestSeveralNodes: the address of a process lists all its transports.
func TestSeveralNodes(t *testing.T) {
	d, err := jobPeers(1)(t, 2)[0].Open(t.Context(), &fabric.Config{Self: 0, Size: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, name := range []string{"shm", "tcp"} {
		if !bytes.Contains(d.Addr(), []byte(name)) {
			t.Errorf("%q does not name %s", d.Addr(), name)
		}
	}
}

func openAlone(t *testing.T, p fabrictest.Peers) fabric.Domain {
	t.Helper()
	d, err := p(t, 1)[0].Open(t.Context(), &fabric.Config{Self: 0, Size: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// TestUnreachable: peers on other nodes cannot be reached by shared memory.
func TestUnreachable(t *testing.T) {
	_, err := jobPeers(1, "shm")(t, 2)[0].Open(t.Context(), &fabric.Config{Self: 0, Size: 2})
	if !errors.Is(err, fabric.ErrNotSupported) || !strings.Contains(err.Error(), "1 of 2 processes are on other nodes") {
		t.Errorf("%v", err)
	}
}

// TestInvalidSetting: an invalid length is an error that names it, whether or not its transport is available. It is never a
// reason to use another transport.
func TestInvalidSetting(t *testing.T) {
	open := func(n Node) error {
		n.Local, n.Interfaces = []int{0}, []string{"lo"}
		d, err := Open(t.Context(), &fabric.Config{Self: 0, Size: 2}, n)
		if err == nil {
			err = d.Close()
		}
		return err
	}
	for want, set := range map[string]Thresholds{
		"Thresholds.TCPEager is 131073": {TCPEager: 131073}, "Thresholds.ShmStream is -1": {ShmStream: -1},
		"Thresholds.TCPPush is -2": {TCPPush: -2},
		"Thresholds.ShmRing is 131071: want a number from 131072 to 2097152": {ShmRing: 131071},
		"Inline is 5000": {RDMAInline: 5000},
	} {
		if err := open(Node{Thresholds: set}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	t.Setenv("IBRUN_RDMA_WINDOW", "many")
	if err := open(Node{}); err == nil || !strings.Contains(err.Error(), "IBRUN_RDMA_WINDOW") {
		t.Errorf("a window of many: %v", err)
	}
	if err := open(Node{Transports: []string{"tcp"}}); err != nil {
		t.Errorf("a setting for RDMA in a job without RDMA: %v", err)
	}
	t.Setenv("IBRUN_RDMA_WINDOW", "")
	t.Setenv(verbs.ProviderVariable, "nosuch")
	for _, list := range [][]string{nil, {"rdma", "tcp"}} {
		if err := open(Node{Transports: list}); !errors.Is(err, verbs.ErrInvalid) ||
			!strings.Contains(err.Error(), "IBRUN_VERBS_PROVIDER: verbs: open: ") ||
			!strings.Contains(err.Error(), "unknown provider nosuch; choose rxe or libibverbs") {
			t.Errorf("transports %v and a provider that does not exist: %v", list, err)
		}
	}
}

// TestEncrypt: with encryption TCP encrypts, and RDMA is not used. A job that may use nothing else is refused.
func TestEncrypt(t *testing.T) {
	for value, want := range map[string]bool{"": false, "0": false, "1": true, "true": true} {
		var n Node
		if err := n.FromEnv(func(name string) string { return map[string]string{tunables.Encrypt: value}[name] }); err != nil ||
			n.Encrypt != want || n.tcp().Encrypt != want {
			t.Errorf("IBRUN_ENCRYPT=%s: %v, %v", value, n.Encrypt, err)
		}
	}
	var n Node
	err := n.FromEnv(func(name string) string { return map[string]string{tunables.Encrypt: "yes"}[name] })
	if err == nil || !strings.Contains(err.Error(), `IBRUN_ENCRYPT="yes": want 1 (encrypt) or 0`) {
		t.Errorf("IBRUN_ENCRYPT=yes: %v", err)
	}
	n = Node{Local: []int{0}, Interfaces: []string{"lo"}, Encrypt: true}
	d, err := Open(t.Context(), &fabric.Config{Self: 0, Size: 2}, n)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if bytes.Contains(d.Addr(), []byte("rdma")) || !bytes.Contains(d.Addr(), []byte("tcp")) {
		t.Errorf("the address is %q", d.Addr())
	}
	n.Transports, n.Key = []string{"shm", "rdma"}, [32]byte{1}
	_, err = Open(t.Context(), &fabric.Config{Self: 0, Size: 2}, n)
	if !errors.Is(err, fabric.ErrNotSupported) || !strings.Contains(err.Error(), "RDMA does not encrypt") {
		t.Errorf("%q: %v", n.Transports, err)
	}
	paths, err := n.Paths()
	if p := paths[len(paths)-1]; err != nil || p.Transport != "rdma" || p.Err == nil ||
		!strings.Contains(p.Err.Error(), "RDMA does not encrypt") {
		t.Errorf("paths %+v, %v", paths, err)
	}
}

// TestUnusedInterfaces: a rule for TCP that names an interface that this host does not have is reported in one line, and the
// others are used. A list of which nothing exists is an error.
func TestUnusedInterfaces(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{"lo,nosuch0": "nosuch0", "lo,^nosuch0,nosuch*": "", "nosuch0": "error"} {
		var lines []string
		n := Node{Local: []int{0}, Transports: []string{"tcp"}, Report: func(text string) { lines = append(lines, text) }}
		err := n.FromEnv(func(name string) string { return map[string]string{tunables.TCPInterfaces: list}[name] })
		if err != nil {
			t.Fatal(err)
		}
		d, err := Open(t.Context(), &fabric.Config{Size: 2}, n)
		if (err != nil) != (want == "error") || err != nil && !strings.Contains(err.Error(), "nosuch0") {
			t.Errorf("%s: %v", list, err)
		}
		if err == nil {
			err = d.Close()
		} else {
			want, err = "", nil
		}
		if err != nil || len(lines) != min(len(want), 1) || !strings.HasPrefix(strings.Join(lines, ""), want) {
			t.Errorf("%s: reported %q, %v", list, lines, err)
		}
	}
}

func TestParseTransports(t *testing.T) {
	for list, want := range map[string][]string{"": nil, "auto": nil, "tcp": {"tcp"}, "shm,tcp": {"shm", "tcp"}} {
		if got, err := ParseTransports(list); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", list, got, err)
		}
	}
	for _, list := range []string{"tpc", "shm,", ","} {
		if _, err := ParseTransports(list); !errors.Is(err, ErrTransport) {
			t.Errorf("%q: %v", list, err)
		}
	}
}

// TestLengths: variables set lengths if they are valid; otherwise the error names them.
func TestLengths(t *testing.T) {
	shmStream, shmRing := tunables.ShmStream.Variable, tunables.ShmRing.Variable
	tcpEager, tcpPush := tunables.TCPEager.Variable, tunables.TCPPush.Variable
	env := map[string]string{shmStream: "5000", shmRing: "200000", tunables.ShmStores: "cached", tcpEager: "131072", tcpPush: "7000"}
	var n Node
	err := n.FromEnv(func(name string) string { return env[name] })
	if want := (Thresholds{ShmStream: 5000, ShmRing: 200000, TCPEager: 131072, TCPPush: 7000}); err != nil ||
		n.Thresholds != want || n.Stores != shm.Cached {
		t.Errorf("%+v, %v", n, err)
	}
	all := Thresholds{TCPEager: 1, TCPPush: 6, RDMAEager: 2, RDMAStream: 3, RDMAInline: 4, RDMAPiece: 5}
	n.Set(all)
	if all.ShmStream, all.ShmRing = 5000, 200000; n.Thresholds != all {
		t.Errorf("set over the environment: %+v", n.Thresholds)
	}
	if n.Set(Thresholds{}); n.Thresholds != all {
		t.Errorf("nothing set: %+v", n.Thresholds)
	}
	if tr := n.shm(); tr.Stream != 5000 || tr.Ring != 200000 || tr.Stores != shm.Cached {
		t.Errorf("settings of shared memory: %+v", tr)
	}
	if s := n.rdma().Settings; s.Eager != 2 || s.Stream != 3 || s.Inline != 4 || s.Piece != 5 {
		t.Errorf("settings of RDMA: %+v", s)
	}
	for _, c := range [][2]string{{shmStream, "0"}, {shmStream, "5K"},
		{shmRing, "131071"}, {shmRing, "2097153"}, {tcpEager, "-1"}, {tcpEager, "131073"},
		{tcpPush, "0"}, {tcpPush, "2097153"}} {
		err := n.FromEnv(func(name string) string { return map[string]string{c[0]: c[1]}[name] })
		if !errors.Is(err, ErrLength) || !strings.Contains(err.Error(), c[0]) {
			t.Errorf("%s=%s: %v", c[0], c[1], err)
		}
	}
}
