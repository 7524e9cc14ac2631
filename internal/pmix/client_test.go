package pmix

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	abi "github.com/ibrun/ibrun/internal/abi/pmix"
)

// TestNoLauncher: a process that PMIx has not started does not load the library.
func TestNoLauncher(t *testing.T) {
	if c, err := FromEnv(func(string) string { return "" }); c != nil || err != nil {
		t.Errorf("got %v, %v", c, err)
	}
}

// TestAlone: only a process of which every launcher says that it is alone needs none.
func TestAlone(t *testing.T) {
	for env, want := range map[string]bool{
		"": false, "1": true, "1 1": true, " 1": true, "4": false, " 4": false, "1 4": false, "4 1": false, "many": false,
	} {
		openmpi, slurm, _ := strings.Cut(env, " ")
		values := map[string]string{"OMPI_COMM_WORLD_SIZE": openmpi, "SLURM_STEP_NUM_TASKS": slurm}
		if got := alone(func(name string) string { return values[name] }); got != want {
			t.Errorf("sizes %q: %v", env, got)
		}
	}
}

// TestPutGet: a value that a process has put can be read after the barrier, whatever its bytes are.
func TestPutGet(t *testing.T) {
	f := newFake(t, 3)
	c := f.client(1)
	want := []byte{0, 1, 0xff, '\n', 0}
	if err := errors.Join(c.Put("key", want), c.Barrier(t.Context())); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Get(1, "key"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %x, %v; want %x", got, err, want)
	}
	for name, key := range map[string]string{"other": "other", "reserved": "pmix.job.size", "zero": "a\x00b", "empty": "",
		"long": strings.Repeat("k", 512)} {
		_, err := c.Get(2, key)
		if err == nil || name == "other" && !errors.Is(err, ErrNotFound) {
			t.Errorf("get %s: %v", name, err)
		}
		if name != "other" && c.Put(key, want) == nil {
			t.Errorf("put %s succeeds", name)
		}
	}
	if _, err := c.Get(3, "key"); err == nil {
		t.Error("get of a rank outside the job succeeds")
	}
	if err := c.Put("empty", nil); err == nil {
		t.Error("put of nothing succeeds")
	}
	if f.values != f.freed {
		t.Errorf("%d blocks of the library were freed, want %d", f.freed, f.values)
	}
}

// TestFailures: the error names the call, the text and the number of the library.
func TestFailures(t *testing.T) {
	f := newFake(t, 2)
	c := f.client(0)
	f.status = -61
	for call, err := range map[string]error{
		"PMIx_Put k": c.Put("k", []byte("v")), "PMIx_Commit": c.Barrier(t.Context()), "PMIx_Abort": c.Abort(3, ""),
		"PMIx_Get pmix.appnum of rank 0": second(c.AppNum()), "PMIx_Get pmix.lpeers": second(c.NodeRanks()),
		"PMIx_Get pmix.nodeid of rank 0": second(c.Mapping()), "PMIx_Finalize": c.Finalize(),
	} {
		if err == nil || !strings.Contains(err.Error(), "pmix: "+call+": status -61 (-61)") {
			t.Errorf("%s: got %v", call, err)
		}
	}
	if err := c.Barrier(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a call after Finalize: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestBarrierEnds: the context ends the wait for processes that do not arrive, and no call is possible afterwards.
func TestBarrierEnds(t *testing.T) {
	f := newFake(t, 2)
	f.block = make(chan struct{})
	defer close(f.block)
	c := f.client(0)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("no more patience")
	cancel(why)
	if err := c.Barrier(ctx); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
	if err := errors.Join(c.Finalize()); !errors.Is(err, why) {
		t.Errorf("Finalize afterwards: %v", err)
	}
}

// TestAbort: code and message reach the library. No code looks like success.
func TestAbort(t *testing.T) {
	f := newFake(t, 2)
	c := f.client(1)
	for code, want := range map[int]string{7: "7 for a test", 0: "1 for a test", 256: "1 for a test", -1: "-1 for a test"} {
		if err := c.Abort(code, "for\x00 a test"); err != nil || f.aborted != want {
			t.Errorf("%v, aborted with %q, want %q", err, f.aborted, want)
		}
	}
}

// TestNodes: nodes come from their numbers, or from the names of the hosts if the launcher does not number them.
func TestNodes(t *testing.T) {
	f := newFake(t, 4)
	c := f.client(2)
	if nodes, err := c.Mapping(); !errors.Is(err, ErrNotFound) {
		t.Errorf("a launcher that does not know: %v, %v", nodes, err)
	}
	for rank, host := range []string{"b", "a", "b", "c"} {
		f.provide(uint32(rank), abi.KeyHostName, abi.TypeString, host)
	}
	if nodes, err := c.Mapping(); err != nil || !slices.Equal(nodes, []int{0, 1, 0, 2}) {
		t.Errorf("from hosts: %v, %v", nodes, err)
	}
	for rank, id := range []int{7, 7, 2, 7} {
		f.provide(uint32(rank), abi.KeyNodeID, abi.TypeUint32, id)
	}
	if nodes, err := c.Mapping(); err != nil || !slices.Equal(nodes, []int{0, 0, 1, 0}) {
		t.Errorf("from numbers: %v, %v", nodes, err)
	}
	f.provide(abi.RankWildcard, abi.KeyLocalPeers, abi.TypeString, "1-3")
	if ranks, err := c.NodeRanks(); err != nil || !slices.Equal(ranks, []int{1, 2, 3}) {
		t.Errorf("ranks of the node: %v, %v", ranks, err)
	}
	f.provide(abi.RankWildcard, abi.KeyLocalPeers, abi.TypeString, "0,1")
	if ranks, err := c.NodeRanks(); err == nil {
		t.Errorf("a node without this process: %v", ranks)
	}
}

// TestNumbers: numbers that the launcher does not provide are -1. A value of another type is an error.
func TestNumbers(t *testing.T) {
	f := newFake(t, 2)
	c := f.client(0)
	app, errApp := c.AppNum()
	universe, errUniverse := c.UniverseSize()
	if err := errors.Join(errApp, errUniverse); app != -1 || universe != -1 || err != nil {
		t.Errorf("not provided: %d, %d, %v", app, universe, err)
	}
	for _, kind := range []uint16{abi.TypeInt, abi.TypeInt32, abi.TypeUint, abi.TypeUint16, abi.TypeUint32, abi.TypeUint64,
		abi.TypeSize, abi.TypeProcRank} {
		f.provide(0, abi.KeyAppNum, kind, 5)
		if n, err := c.AppNum(); n != 5 || err != nil {
			t.Errorf("of type %d: %d, %v", kind, n, err)
		}
	}
	f.provide(abi.RankWildcard, abi.KeyUniverseSize, abi.TypeUint16, 1<<16-1)
	app, errApp = c.AppNum()
	universe, errUniverse = c.UniverseSize()
	if err := errors.Join(errApp, errUniverse); app != 5 || universe != 1<<16-1 || err != nil {
		t.Errorf("provided: %d, %d, %v", app, universe, err)
	}
	f.provide(0, abi.KeyAppNum, 39, 5)
	if n, err := c.AppNum(); err == nil || !strings.Contains(err.Error(), "unexpected type 39") {
		t.Errorf("another type: %d, %v", n, err)
	}
}

func TestParsePeers(t *testing.T) {
	for text, want := range map[string]string{
		"0": "[0]", "0,1,2": "[0 1 2]", "1,3-5,7": "[1 3 4 5 7]", "9": "[9]",
		"": "", "10": "", "1,1": "", "2,1": "", "5-3": "", "-1": "", "1-": "", "1,,2": "", "1, 2": "", "0-99999999999": "", "x": "",
	} {
		ranks, err := parsePeers(text, 10)
		if got := fmt.Sprint(ranks); (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%q: %v, %v; want %s", text, ranks, err, want)
		}
	}
}

// FuzzPeers: the ranks are in ascending order and within the job.
func FuzzPeers(f *testing.F) {
	for _, text := range []string{"0,1,2", "3-9", "0-1,4", "", ",", "1-0", "99999999999999999999"} {
		f.Add(text, 10)
	}
	f.Fuzz(func(t *testing.T, text string, size int) {
		size = min(size, 1<<16)
		ranks, err := parsePeers(text, size)
		if err != nil {
			return
		}
		for i, rank := range ranks {
			if rank < 0 || rank >= size || i > 0 && rank <= ranks[i-1] {
				t.Fatalf("%q: %v", text, ranks)
			}
		}
	})
}
