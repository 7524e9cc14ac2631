package benchcmd

import (
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/bench"
	"github.com/ibrun/ibrun/internal/transports"
)

// TestPerformanceSection: each point has a cell, with the ratio to the better peer.
func TestPerformanceSection(t *testing.T) {
	point := func(op, transport string, ranks, size int, ours, peer float64, name, version string) line {
		l := newLine(op, ranks, size, bench.Microseconds, ours, peer, name)
		l.Transport, l.PeerVersion = transport, version
		return l
	}
	got := performanceSection("Processor, 2 cores, linux", "2026-01-02, ibrun v1", 15, []line{
		point("latency", "shm", 2, 8, 0.1, 0.15, "openmpi", "5.0.7"),
		point("latency", "shm", 2, 8, 0.1, 0.13, "mpich", "4.2.1"),
		point("latency", "shm", 2, 65536, 12.345, 10, "openmpi", "5.0.7"),
		point("barrier", "shm", 2, 0, 1, 2, "mpich", "4.2.1"),
		point("barrier", "shm", 4, 0, 4, 2, "mpich", "4.2.1"),
		point("latency", "tcp", 2, 8, 4, 3, "sockets", ""),
	})
	const want = `## Processor, 2 cores, linux

2026-01-02, ibrun v1. Compared with openmpi 5.0.7, mpich 4.2.1, sockets. Medians of 15 rounds.

| operation | transport | ranks | unit | no data | 8 B | 64 KiB |
|---|---|---|---|---|---|---|
| latency | shm | 2 | us |  | 0.100 (1.30) | 12.35 (0.81) |
| barrier | shm | 2 | us | 1.000 (2.00) |  |  |
| barrier | shm | 4 | us | 4.000 (0.50) |  |  |
| latency | tcp | 2 | us |  | 4.000 (0.75) |  |
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestPerformance: the section has a row for each operation with each number of ranks. A peer that fails is left out, and is in
// the error.
func TestPerformance(t *testing.T) {
	self, _ := fakes(t, map[string]string{"openmpi": "5", "mpich": "die"})
	var out strings.Builder
	c := command{env: os.Environ(), stdout: &out, stderr: io.Discard, self: self}
	parts := []performancePart{{transports.Shm, "latency,bw", "8,1K"}, {transports.Shm, "barrier,bcast", "8"}}
	err := c.printPerformance(t.Context(), parts, "", programSources{dir: sources}, minRounds, time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "mpirun.mpich") {
		t.Errorf("one peer fails: %v", err)
	}
	rows := 0
	for l := range strings.Lines(out.String()) {
		if strings.HasPrefix(l, "| ") && strings.Contains(l, " (") {
			rows++
		}
	}
	const pairs, collectives = 2, 2 * 3 // with three numbers of ranks
	const peers = "Compared with openmpi 4.5.6. Medians of 7 rounds."
	if rows != pairs+collectives || !strings.Contains(out.String(), peers) {
		t.Errorf("%d rows\n%s", rows, out.String())
	}
	t.Setenv("PATH", t.TempDir())
	err = c.printPerformance(t.Context(), parts, "", programSources{dir: sources}, minRounds, time.Millisecond)
	if err == nil || strings.Count(err.Error(), "apt-get install") != 1 {
		t.Errorf("without a peer: %v", err)
	}
}

// TestPerformanceParts: what the section shows can be measured.
func TestPerformanceParts(t *testing.T) {
	for _, p := range performanceParts {
		v := &comparison{transport: p.transport.String()}
		var err error
		if v.ops, err = opList(p.ops); err != nil {
			t.Fatal(err)
		}
		if err := v.sizes.Set(p.sizes); err != nil {
			t.Fatal(err)
		}
		for _, op := range v.ops {
			if len(v.jobs(op)) == 0 {
				t.Errorf("%s cannot be measured at %s", op.Name, p.sizes)
			}
		}
	}
}

// TestProcessorName: the name has family and model where the kernel prints them.
func TestProcessorName(t *testing.T) {
	const intel = "processor\t: 0\ncpu family\t: 6\nmodel\t\t: 207\nmodel name\t: A  CPU\n\nprocessor\t: 1\nmodel\t\t: 3\n"
	for info, want := range map[string]string{
		intel:                                 "A  CPU (family 6, model 207)",
		"processor\t: 0\nBogoMIPS\t: 50.00\n": runtime.GOARCH,
		"":                                    runtime.GOARCH,
	} {
		if got := processorName(info); got != want {
			t.Errorf("%q: %s, want %s", info, got, want)
		}
	}
}
