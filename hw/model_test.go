package hw_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ibrun/ibrun/hw"
)

const pciIDs = "# a comment\n" +
	"1002  Advanced Micro Devices, Inc. [AMD/ATI]\n\t74a1  Aqua Vanjaram [Instinct MI300X]\n\t\t1002 74a1  a board\n" +
	"10de  NVIDIA Corporation\n\t2330  GH100 [H100 SXM5 80GB]\n\t74a1  another\n" +
	"C 03  Display controller\n\t00  VGA compatible controller\n"

// TestLookUpModels: a GPU whose driver does not name it has the name in the database of PCI ids, if it is there.
func TestLookUpModels(t *testing.T) {
	top := &hw.Topology{GPUs: []hw.Device{
		{ID: "10de:2330", Model: "NVIDIA H100 80GB HBM3"}, {ID: "1002:74a1"}, {ID: "10de:2330"}, {ID: "10de:ffff"},
	}}
	top.LookUpModels(fstest.MapFS{})
	if top.GPUs[1].Model != "" || top.Problems != nil {
		t.Errorf("without a database: %+v", top)
	}
	top.LookUpModels(fstest.MapFS{"usr/share/misc/pci.ids": {Data: []byte(pciIDs)}})
	var got []string
	for _, d := range top.GPUs {
		got = append(got, d.Model)
	}
	want := "NVIDIA H100 80GB HBM3; Advanced Micro Devices, Inc. [AMD/ATI] Aqua Vanjaram [Instinct MI300X]; " +
		"NVIDIA Corporation GH100 [H100 SXM5 80GB]; "
	if strings.Join(got, "; ") != want || top.Problems != nil {
		t.Errorf("models %q, problems %q", got, top.Problems)
	}
	top.LookUpModels(fstest.MapFS{"usr/share/hwdata/pci.ids": {Data: []byte(strings.Repeat("x", 1<<17))}})
	if len(top.Problems) != 1 || !strings.HasPrefix(top.Problems[0], "usr/share/hwdata/pci.ids: ") {
		t.Errorf("a line without an end: problems %q", top.Problems)
	}
}

// FuzzLookUpModels reads any bytes as a database of PCI ids.
func FuzzLookUpModels(f *testing.F) {
	f.Add([]byte(pciIDs), "10de:2330")
	f.Add([]byte("10de  \n\t\t  \n\t2330  "), "10de:2330")
	f.Fuzz(func(t *testing.T, data []byte, id string) {
		top := &hw.Topology{GPUs: []hw.Device{{ID: id}}}
		top.LookUpModels(fstest.MapFS{"usr/share/pci.ids": {Data: data}})
		_, device, _ := strings.Cut(id, ":")
		found := top.GPUs[0].Model == ""
		for line := range strings.Lines(string(data)) {
			name, ok := strings.CutPrefix(line, "\t"+device+"  ")
			found = found || ok && strings.HasSuffix(top.GPUs[0].Model, " "+strings.TrimRight(name, "\r\n"))
		}
		if !found {
			t.Errorf("%s has the model %q, which is not in the database", id, top.GPUs[0].Model)
		}
	})
}
