package benchcmd

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/ibrun/ibrun/bench"
	"github.com/ibrun/ibrun/internal/transports"
	"github.com/ibrun/ibrun/internal/tunables"
)

// pathSetting is a setting of a transport that changes how a message travels beside its protocol.
type pathSetting struct {
	variable, value string
	from            int // shorter messages are sent as without it
}

func (s pathSetting) String() string { return s.variable + "=" + s.value }

// pathSettings returns the settings of a transport that are compared: smaller rings and both kinds of stores, TCP without bytes
// that follow the RTS, RDMA READs of several lengths.
func pathSettings(transport string) (all []pathSetting) {
	number := func(t *tunables.Tunable, from int, values ...int) {
		for _, v := range values {
			all = append(all, pathSetting{t.Variable, strconv.Itoa(v), from})
		}
	}
	switch transport {
	case transports.Shm.String():
		for _, s := range []tunables.Stores{tunables.CachedStores, tunables.NonTemporalStores} {
			all = append(all, pathSetting{tunables.ShmStores, s.String(), 4<<10 + 1})
		}
		number(&tunables.ShmRing, 2<<10, 128<<10, 512<<10)
	case transports.TCP.String():
		number(&tunables.TCPPush, tunables.TCPEager.Default+1, 1)
	case transports.RDMA.String():
		number(&tunables.RDMAPiece, tunables.RDMAStream.Default+1, 16<<10, 128<<10, 1<<20)
	}
	return all
}

// settingsRun compares jobs over one transport, with one of its settings each, and without any.
type settingsRun struct {
	*paths
	c         *command
	transport string
	settings  []pathSetting
	report    *report
}

// noSetting stands for a job without any of the settings.
const noSetting = "none"

// compareSettings compares jobs with each of the settings of a transport and without any, in alternation.
func (c *command) compareSettings(ctx context.Context, o *paths, transport string) error {
	s := settingsRun{paths: o, c: c, transport: transport, settings: pathSettings(transport),
		report: &report{w: c.stdout, json: o.report.json, nameWidth: len(tunables.ShmStores) + len("=nontemporal"),
			baseline: "the best setting of " + transport + " at each size"}}
	for _, op := range o.ops {
		for _, buffers := range listItems(o.buffers) {
			for sizes := s.sizesOf(op); len(sizes) > 0; {
				n := sameWindow(op, sizes)
				if err := s.compare(ctx, op, bufferKinds[buffers], sizes[:n]); err != nil {
					return err
				}
				sizes = sizes[n:]
			}
		}
	}
	return s.report.printSummary(c.stderr)
}

// sizesOf returns the sizes at which any of the settings makes a difference.
func (s *settingsRun) sizesOf(op bench.Op) []int {
	return slices.DeleteFunc(sizesFor(op, s.sizes), func(size int) bool {
		return !slices.ContainsFunc(s.settings, func(x pathSetting) bool { return size >= x.from })
	})
}

// sameWindow returns how many of the first sizes are measured with the same window. Only bw has one.
func sameWindow(op bench.Op, sizes []int) int {
	i := slices.IndexFunc(sizes, func(size int) bool { return op.Name == "bw" && streamWindow(size) != streamWindow(sizes[0]) })
	if i < 0 {
		return len(sizes)
	}
	return i
}

// compare compares the jobs at sizes with the same window.
func (s *settingsRun) compare(ctx context.Context, op bench.Op, written bool, sizes []int) error {
	j := job{op: op, ranks: 2, sizes: sizes, time: s.time, written: written, means: true}
	if op.Name == "bw" {
		j.window = streamWindow(sizes[0])
	}
	jobs := len(s.settings) + 1               // the first one has no setting
	rounds := make([]map[int][]float64, jobs) // by size
	for i := range rounds {
		rounds[i] = map[int][]float64{}
	}
	for round := range s.rounds {
		for k := range jobs {
			i := (round + k) % jobs // each one is the first in some rounds
			points, err := s.subject(i).run(ctx, j)
			if err != nil {
				return err
			}
			for size, value := range points {
				rounds[i][size] = append(rounds[i][size], value)
			}
		}
	}
	for _, size := range sizes {
		names, values := []string{noSetting}, [][]float64{rounds[0][size]}
		for i, x := range s.settings {
			if size >= x.from {
				names, values = append(names, x.String()), append(values, rounds[i+1][size])
			}
		}
		l := compareChoice(op, 2, size, names, values)
		l.Transport, l.Written, l.Settings, l.Protocols = s.transport, written, l.Protocols, nil
		if err := s.report.point(l); err != nil {
			return err
		}
	}
	return nil
}

// subject returns this program as a subject without a setting, or with that of the number i-1.
func (s *settingsRun) subject(i int) *subject {
	p := s.c.ibrunSubject(s.transport)
	p.environ = append(p.environ, s.transportVariables()...)
	if i > 0 {
		x := s.settings[i-1]
		p.name = x.String()
		p.environ = append(p.environ, x.String())
	}
	return p
}

// transportVariables returns the caller's variables that decide how messages travel, such as the devices to use, but not those
// that are compared. The jobs that compare protocols have them as well.
func (s *settingsRun) transportVariables() (kept []string) {
	known := tunables.Variables()
	for _, v := range s.c.env {
		name, _, _ := strings.Cut(v, "=")
		compared := slices.ContainsFunc(s.settings, func(x pathSetting) bool { return x.variable == name })
		if slices.Contains(known, name) && name != tunables.Transports && !compared {
			kept = append(kept, v)
		}
	}
	return kept
}
