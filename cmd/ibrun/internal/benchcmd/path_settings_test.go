package benchcmd

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/bench"
	"github.com/ibrun/ibrun/internal/transports"
	"github.com/ibrun/ibrun/internal/tunables"
)

// TestPathSettingsAreValid: each transport has settings, and all of them are valid.
func TestPathSettingsAreValid(t *testing.T) {
	for _, transport := range []transports.Transport{transports.Shm, transports.TCP, transports.RDMA} {
		all := pathSettings(transport.String())
		if len(all) == 0 {
			t.Errorf("%v has no settings", transport)
		}
		for _, setting := range all {
			name, value := setting.variable, setting.value
			if !strings.HasPrefix(name, "IBRUN_"+strings.ToUpper(transport.String())+"_") {
				t.Errorf("%s is not a setting of %v", setting, transport)
			}
			getenv := func(variable string) string {
				if variable == name {
					return value
				}
				return ""
			}
			_, err := tunables.StoresFromEnv(getenv)
			known := name == tunables.ShmStores
			for _, x := range tunables.All() {
				_, invalid := x.FromEnv(getenv)
				err = errors.Join(err, invalid)
				known = known || x.Variable == name
			}
			if err != nil || !known {
				t.Errorf("%s: known %v, %v", setting, known, err)
			}
		}
	}
}

// TestWindows: sizes with the same window are measured together.
func TestWindows(t *testing.T) {
	sizes := []int{1, 128 << 10, 256 << 10, 1 << 20, 16 << 20}
	latency, _ := bench.Lookup("latency")
	bw, _ := bench.Lookup("bw")
	for _, c := range []struct {
		op          bench.Op
		first, want int
	}{{latency, 0, 5}, {bw, 0, 2}, {bw, 2, 1}, {bw, 3, 2}, {bw, 4, 1}} {
		if got := sameWindow(c.op, sizes[c.first:]); got != c.want {
			t.Errorf("%s of %v: %d, want %d", c.op.Name, sizes[c.first:], got, c.want)
		}
	}
}

// TestSettingsJobs: each transport can measure each operation, with messages that are written and without.
func TestSettingsJobs(t *testing.T) {
	c := &command{self: "ibrun"}
	for _, transport := range []string{"shm", "tcp", "rdma"} {
		for _, name := range []string{"latency", "bw"} {
			op, _ := bench.Lookup(name)
			for _, written := range []bool{false, true} {
				words := c.ibrunSubject(transport).commandLine(job{op: op, ranks: 2, sizes: []int{8}, time: 1, written: written, window: 4,
					means: true})
				at := slices.Index(words, "bench")
				o, err := c.parseOp(op, words[at+2:])
				if err != nil || o.cfg.Written != written || o.cfg.Window != 4 {
					t.Errorf("%s: %v", words, err)
				}
			}
		}
	}
}
