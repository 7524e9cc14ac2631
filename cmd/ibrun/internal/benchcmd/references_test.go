package benchcmd

import (
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/bench"
)

func TestIperfFigure(t *testing.T) {
	got, err := iperfFigure([]byte(`{"start":{},"end":{"sum_sent":{"bits_per_second":9e9},"sum_received":{"bits_per_second":8e9}}}`))
	if err != nil || got != 1000 {
		t.Errorf("%v MB/s, %v", got, err)
	}
	for _, text := range []string{"", "{", "{}", `{"error":"unable to connect"}`, `{"end":{"sum_received":{"bits_per_second":-1}}}`,
		`{"end":{"sum_received":{"bits_per_second":1e300}}}`} {
		if got, err := iperfFigure([]byte(text)); err == nil {
			t.Errorf("%q is %v MB/s", text, got)
		}
	}
}

// TestSupportedPart: a reference implementation gets only the operations and sizes that it supports.
func TestSupportedPart(t *testing.T) {
	op := func(name string) bench.Op {
		o, err := lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	sizes := []int{1, 1000, 100000}
	ref, mpi := &subject{ops: []string{"bw"}, minSize: 1000}, &subject{}
	for _, c := range []struct {
		p    *subject
		j    job
		want []int
	}{
		{ref, job{op: op("bw"), ranks: 2, sizes: sizes}, sizes[1:]},
		{ref, job{op: op("bw"), ranks: 4, sizes: sizes}, nil},
		{ref, job{op: op("latency"), ranks: 2, sizes: sizes}, nil},
		{mpi, job{op: op("allreduce"), ranks: 4, sizes: sizes}, sizes},
	} {
		if got := c.p.supportedPart(c.j).sizes; !slices.Equal(got, c.want) {
			t.Errorf("%s among %d: %v, want %v", c.j.op.Name, c.j.ranks, got, c.want)
		}
	}
	if sizes[0] != 1 {
		t.Error("the job was changed")
	}
}

// TestPeerNames: each transport has its own peers.
func TestPeerNames(t *testing.T) {
	for transport, want := range map[string]string{
		"shm": "openmpi mpich", "tcp": "openmpi mpich sockets iperf3", "rdma": "perftest",
	} {
		if got := strings.Join(peerNames(transport), " "); got != want {
			t.Errorf("%s: %s, want %s", transport, got, want)
		}
	}
}
