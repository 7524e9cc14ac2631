package coordinator

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/placement"
	"github.com/ibrun/ibrun/internal/pmi"
)

// A rank reads the same layout from PMI, and the text is short if the layout has a pattern.
func TestMapping(t *testing.T) {
	for _, c := range []struct {
		flags        string
		ranks, nodes int
		want         string
	}{
		{"", 4, 2, "(vector,(0,2,2))"},
		{"", 5, 2, "(vector,(0,1,3),(1,1,2))"},
		{"", 7, 7, "(vector,(0,7,1))"},
		{"", 1000, 37, "(vector,(0,1,28),(1,36,27))"},
		{"ppn=2", 6, 3, "(vector,(0,3,2))"},
		{"map-by=node", 1 << 16, 16, "(vector,(0,16,1))"},
		{"map-by=node", 5, 3, "(vector,(0,3,1))"},
	} {
		var p placement.Policy
		if name, value, ok := strings.Cut(c.flags, "="); ok {
			if err := p.Set(name, value); err != nil {
				t.Fatal(err)
			}
		}
		at, err := p.MapToNodes(make([]string, c.nodes), nil, c.ranks)
		if err != nil {
			t.Fatal(err)
		}
		testMapping(t, NewLayout(at, c.nodes), c.want)
	}
	for want, at := range map[string][]int{
		"(vector,(1,1,2),(0,2,1),(0,1,1))": {1, 1, 0, 1, 0},
		"(vector,(0,1,2),(1,1,1),(0,2,1))": {0, 0, 1, 0, 1},
		"(vector,(1,1,1),(0,1,1))":         {1, 0},
	} {
		testMapping(t, NewLayout(at, 2), want)
	}
}

func testMapping(t *testing.T, l Layout, want string) {
	t.Helper()
	if got := l.Mapping(); got != want {
		t.Errorf("the mapping of %v is %s, want %s", l.RanksOn, got, want)
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	s, err := pmi.NewServer(pmi.Job{Size: len(l.NodeOf), KVSName: "j", Mapping: l.Mapping(), Node: l.NodeOf[0]})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- s.Serve(0, os.NewFile(uintptr(fds[0]), "server")) }()
	env := map[string]string{"PMI_FD": fmt.Sprint(fds[1]), "PMI_RANK": "0", "PMI_SIZE": fmt.Sprint(len(l.NodeOf))}
	c, err := pmi.FromEnv(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	if at, err := c.Mapping(); err != nil || !slices.Equal(at, l.NodeOf) {
		t.Errorf("%s: a rank reads %v, %v", want, at, err)
	}
	if err := errors.Join(c.Finalize(), <-served); err != nil {
		t.Error(err)
	}
}
