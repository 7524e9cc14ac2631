package hw

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// parseModel parses the file in which NVIDIA's driver describes a GPU. Its first line is, for example,
// "Model: \t\t NVIDIA H100 80GB HBM3".
func parseModel(text string) (string, error) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "Model:"); ok && strings.HasSuffix(line, "\n") {
			return strings.TrimSpace(rest), nil
		}
	}
	return "", malformed("model", text)
}

// databases are the files in which distributions install the names of PCI devices (pci-ids.ucw.cz).
var databases = []string{"usr/share/hwdata/pci.ids", "usr/share/misc/pci.ids", "usr/share/pci.ids"}

// LookUpModels sets the models of GPUs that have none, to the names in the database of PCI ids of the system whose root directory
// is fsys. Without such a file it does nothing. t may describe another machine.
func (t *Topology) LookUpModels(fsys fs.FS) {
	names := map[string]string{}
	for _, d := range t.GPUs {
		if d.Model == "" {
			names[d.ID] = ""
		}
	}
	if len(names) == 0 {
		return
	}
	for _, path := range databases {
		f, err := fsys.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = errors.Join(nameDevices(bufio.NewScanner(f), names), f.Close())
		}
		if err != nil {
			t.Problems = append(t.Problems, fmt.Sprintf("%s: %v", path, err))
		}
		break
	}
	for i := range t.GPUs {
		t.GPUs[i].Model = cmp.Or(t.GPUs[i].Model, names[t.GPUs[i].ID])
	}
}

// nameDevices sets the names of devices by their ids, such as 10de:2330. A line of the file is "10de  NVIDIA Corporation", or
// "\t2330  GH100 [H100 SXM5 80GB]" for a device of the vendor above. Lines with two tabs are about boards, those from "C 00" on
// about classes.
func nameDevices(lines *bufio.Scanner, names map[string]string) error {
	var vendor, vendorName string
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "C ") {
			break
		}
		device, isDevice := strings.CutPrefix(line, "\t")
		id, name, ok := strings.Cut(device, "  ")
		switch {
		case !ok || len(id) != 4:
		case !isDevice:
			vendor, vendorName = id, name
		default:
			if _, ok := names[vendor+":"+id]; ok {
				names[vendor+":"+id] = vendorName + " " + name
			}
		}
	}
	return lines.Err()
}
