package hw_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/hw/hwtest"
)

// FuzzRead reads machines in which two files, or all files of two kinds, have another text or are links.
func FuzzRead(f *testing.F) {
	machines := hwtest.Archives(f, "testdata/machines/*.txtar")
	for machine := range machines {
		for i, text := range []string{"0-1023\n", "\n", "", "-1\n", "x\n", "99999\n", "!EIO\n", "0,2\n", ".", "..", "/proc"} {
			f.Add(uint8(machine), uint16(i*7), text, i >= 8, uint16(i), "0-1023\n")
		}
	}
	f.Add(uint8('H'), uint16(49), "0,0,22\n", false, uint16(7), "0-102999993\n") // refused before the range is expanded
	f.Fuzz(func(t *testing.T, machine uint8, first uint16, text string, link bool, second uint16, more string) {
		if len(text) > 4096 || len(more) > 4096 {
			return
		}
		archive := hwtest.Corrupt(machines[int(machine)%len(machines)], first, text, link)
		tree, err := hwtest.FromText(hwtest.Corrupt(archive, second, more, link))
		if err != nil {
			return // not a valid tree
		}
		checkRead(t, tree)
	})
}

// FuzzUnpack unpacks any bytes and reads the result as a machine.
func FuzzUnpack(f *testing.F) {
	var archive bytes.Buffer
	if err := hw.Capture(&archive, hwtest.Tree(f, "testdata/machines/container.txtar")); err != nil {
		f.Fatal(err)
	}
	f.Add(archive.Bytes())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		tree, err := hw.Unpack(bytes.NewReader(data))
		if err != nil {
			return
		}
		checkRead(t, tree)
		if err := hw.Capture(new(bytes.Buffer), tree); err != nil {
			t.Error(err)
		}
	})
}

// checkRead reads a tree and checks the invariants of every topology.
func checkRead(t *testing.T, tree fs.FS) {
	t.Helper()
	top, err := hw.Read(tree, hw.WithAffinity([]int{0, 1}))
	if err != nil {
		return
	}
	if len(top.PUs) <= 512 { // larger topologies take seconds and test nothing more
		if _, err := json.Marshal(top); err != nil {
			t.Error(err)
		}
	}
	var all, inCores []int
	for _, pu := range top.PUs {
		all = append(all, pu.ID)
	}
	for _, core := range top.Cores {
		inCores = append(inCores, core.PUs...)
	}
	slices.Sort(all)
	slices.Sort(inCores)
	if !slices.Equal(all, inCores) {
		t.Errorf("the PUs are %v, those in cores %v", all, inCores)
	}
	known := map[int]bool{}
	for _, id := range all {
		known[id] = true
	}
	sets := [][]int{top.Allowed}
	for _, p := range top.Packages {
		sets = append(sets, p.PUs)
	}
	for _, n := range top.Nodes {
		sets = append(sets, n.PUs)
	}
	for _, c := range top.Caches {
		sets = append(sets, c.PUs)
	}
	for _, set := range sets {
		if !slices.IsSorted(set) || slices.ContainsFunc(set, func(id int) bool { return !known[id] }) {
			t.Errorf("%v is not ascending, or contains PUs that do not exist", set)
		}
	}
	candidates := slices.Concat(top.RDMACandidates(), top.GPUCandidates())
	if choices := top.AssignDevices([][]int{{0}, all, nil}, candidates); len(candidates) > 0 && len(choices) != 3 {
		t.Errorf("three ranks have %d choices", len(choices))
	}
	for i := range min(len(top.PCI), 20) {
		top.PathBetween(top.PCI[0].Location(), top.PCI[i].Location())
	}
}
