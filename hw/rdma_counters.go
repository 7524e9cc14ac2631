package hw

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// ReadCounters reads the counters of a device's port. Ports count from 1; port 0 means the counters of the device as a
// whole. Counters are separate from [ReadRDMA], because some drivers query the firmware for each one. If the port does
// not exist, the error is fs.ErrNotExist.
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

// readCounters reads a directory of counters.
func (r *deviceReader) readCounters(dir string) map[string]uint64 {
	counters := map[string]uint64{}
	for _, name := range r.readDirNames(dir) {
		text, ok := r.readText(dir + "/" + name)
		if !ok || name == "lifespan" || strings.HasPrefix(text, "N/A") {
			continue // lifespan is not a counter: it is the time for which the kernel caches the counters
		}
		n, err := parseUint(text, 64)
		r.addProblem(dir+"/"+name, err)
		if err == nil {
			counters[name] = n
		}
	}
	return counters
}

// Counters are a port's counters by the kernel's names. Names and units depend on driver and kernel. The standard
// counters port_xmit_data and port_rcv_data count words of four bytes. Counters that the hardware lacks are left out.
type Counters struct {
	Port map[string]uint64 `json:"port"` // directory counters: InfiniBand's standard ones
	HW   map[string]uint64 `json:"hw"`   // directory hw_counters: the driver's own

	// Problems lists files that could not be read or understood.
	Problems []string `json:"problems,omitempty"`
}
