package bootstrap

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/auto"
)

// choosing takes the transport to a peer that its address names.
type choosing struct{ fabric.Domain }

var errNone = errors.New("none in common")

func (choosing) Choice(_ int, addr []byte) (string, error) {
	if len(addr) == 0 {
		return "", errNone
	}
	return string(addr), nil
}

// listed is a directory of processes, each with a node and the transport that it is reached by.
type listed struct {
	at  []int
	via []string
}

func (l listed) address(peer int) []byte { return []byte(l.via[peer]) }
func (l listed) nodes() ([]int, error)   { return l.at, nil }

func TestReportTransports(t *testing.T) {
	for want, c := range map[string]struct {
		local []int
		self  int
		at    []int
		via   []string
	}{
		"node 0: shm among its 2 ranks; rdma to nodes 1,3; tcp to node 2": {
			[]int{0, 1}, 0, []int{0, 0, 1, 1, 2, 3}, []string{"", "shm", "rdma", "tcp", "tcp", "rdma"}},
		"node 1: tcp to node 0": {[]int{1}, 1, []int{0, 1}, []string{"tcp", ""}},
		"node 0: tcp among its 3 ranks; rdma to nodes 1-2": {
			[]int{0, 2, 4}, 0, []int{0, 1, 0, 2, 0}, []string{"", "rdma", "tcp", "rdma", "tcp"}},
	} {
		got := ""
		n := auto.Node{Local: c.local, Report: func(line string) { got += line }}
		if err := reportTransports(n, n.Report, c.self, choosing{}, listed{c.at, c.via}); err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	n := auto.Node{Local: []int{0}, Report: func(line string) { t.Errorf("reported %q", line) }}
	if err := reportTransports(n, n.Report, 0, choosing{}, listed{[]int{0, 1}, []string{"", ""}}); !errors.Is(err, errNone) {
		t.Errorf("a peer out of reach: %v", err)
	}
}

// TestReportTransportsOneNode: if all processes share memory none is asked, and a single process reports nothing.
func TestReportTransportsOneNode(t *testing.T) {
	for _, local := range [][]int{{0}, {0, 1, 2}} {
		got, want := "", ""
		if len(local) > 1 {
			want = fmt.Sprintf("node 5: shm among its %d ranks", len(local))
		}
		n := auto.Node{Local: local, Report: func(line string) { got += line }}
		if err := reportTransports(n, n.Report, 5, nil, nil); err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
}

// TestOncePerNode: of several texts about the peers of a node, the first is reported. If the nodes are unknown, all are.
func TestOncePerNode(t *testing.T) {
	var got []string
	always := func(text string) { got = append(got, text) }
	once := func(about, text string) { got = append(got, about+": "+text) }
	f := oncePerNode(func() ([]int, error) { return []int{0, 1, 1, 2}, nil }, always, once)
	f(1, "a")
	f(2, "b")
	f(3, "c")
	f(1, "d")
	f = oncePerNode(func() ([]int, error) { return nil, errors.New("no mapping") }, always, once)
	f(1, "e")
	f(1, "f")
	if want := []string{"transport to node 1: a", "transport to node 2: c", "e", "f"}; !slices.Equal(got, want) {
		t.Errorf("reported %q, want %q", got, want)
	}
}
