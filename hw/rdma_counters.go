package hw

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// ReadCounters reads the counters of one port, from 1, of a device, or with port 0 those of the device as a whole.
// They are no part of [ReadRDMA] because some drivers ask the firmware for each. The error is fs.ErrNotExist when
// there is no such port.
func ReadCounters(fsys fs.FS, device string, port int) (*Counters, error) {
	dir := path.Join(classRDMA, device)
	if port != 0 {
		dir = path.Join(dir, "ports", strconv.Itoa(port))
	}
	_, err := fs.Stat(fsys, dir)
	if !fs.ValidPath(device) || strings.ContainsAny(device, "/.") {
		err = fs.ErrInvalid
	}
	if err != nil {
		return nil, fmt.Errorf("hw: read counters of %s port %d: %w", device, port, err)
	}
	r := deviceReader{reader: reader{fsys: fsys}}
	c := &Counters{Port: r.readCounters(dir + "/counters"), HW: r.readCounters(dir + "/hw_counters")}
	c.Problems = r.problems
	return c, nil
}

func (r *deviceReader) readCounters(dir string) map[string]uint64 {
	counters := map[string]uint64{}
	for _, name := range r.readDirNames(dir) {
		text, ok := r.readText(dir + "/" + name)
		if !ok || name == "lifespan" || strings.HasPrefix(text, "N/A") {
			continue // lifespan is how long the kernel keeps the others before it asks again
		}
		n, err := parseUint(text, 64)
		r.addProblem(dir+"/"+name, err)
		if err == nil {
			counters[name] = n
		}
	}
	return counters
}

// Counters are a port's counters by the kernel's names. The names depend on driver and kernel, and so do the units:
// those of the standard (port_xmit_data) count words of four bytes. Counters that the hardware lacks are left out.
type Counters struct {
	Port map[string]uint64 `json:"port"` // directory counters: InfiniBand's standard ones
	HW   map[string]uint64 `json:"hw"`   // directory hw_counters: the driver's own

	// Problems names what could not be read or understood.
	Problems []string `json:"problems,omitempty"`
}
